// SPDX-License-Identifier: Apache-2.0
//
// Executes bundles for tests/python/bundle_samples.py.
//
//   spyre_samples run REQUEST [interpreter | card | exact]
//       REQUEST is text, one launch after the other:
//           bundle <directory>
//           pool <0 or 1>           whether the first buffer is the pool
//           buffer <file>           launch arguments in order; equal names are one buffer
//           run
//       All launches share LX. At the end every file holds its buffer's new content.
//   spyre_samples rewrite FROM TO absolute|symbolic <0 or 1>
//       Reads a bundle and writes it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "back/back.h"
#include "base/file.h"
#include "bundle/files.h"
#include "bundle/interpret.h"
#include "bundle/write.h"
#include "card/card.h"

enum { MOST_BUFFERS = 64 };
#define LIMIT_BYTES ((size_t)1 << 32)

typedef struct {
    arena *memory;
    uint8_t *lx;                        // the interpreter's
    card *card;                         // null: the interpreter executes
    const char *paths[MOST_BUFFERS];
    bundle_buffer buffers[MOST_BUFFERS];
    uint32_t buffer_count;
    const char *directory;
    bool pool_first;
    bundle_buffer launch[MOST_BUFFERS];
    uint32_t launch_count;
} session;

static spyre_status add_buffer(session *s, const char *path)
{
    uint32_t i = 0;
    while (i < s->buffer_count && strcmp(s->paths[i], path) != 0) i++;
    if (i == s->buffer_count) {
        char *bytes;
        size_t length;
        if (i == MOST_BUFFERS) return status_new(SPYRE_INVALID_ARGUMENT, "too many buffers");
        TRY(file_read(s->memory, path, LIMIT_BYTES, &bytes, &length));
        s->buffers[i] = (bundle_buffer){(uint8_t *)bytes, (int64_t)length};
        s->paths[i] = path;
        s->buffer_count++;
    }
    if (s->launch_count == MOST_BUFFERS) {
        return status_new(SPYRE_INVALID_ARGUMENT, "too many launch arguments");
    }
    s->launch[s->launch_count++] = s->buffers[i];
    return NULL;
}

// Back-end and card: argument k lies in segment k, copied there and back.
static spyre_status launch_on_card(session *s, bundle *b)
{
    isa_program *program;
    card_program *loaded;
    card_argument arguments[CARD_SEGMENTS];
    back_options options = BACK_OPTIONS_INIT;
    if (b->args.count > CARD_SEGMENTS)
        return status_new(SPYRE_UNSUPPORTED, "%u launch arguments", b->args.count);
    for (uint32_t i = 0; i < b->args.count; i++) {
        uint64_t bytes = (uint64_t)s->launch[i].size_bytes;
        arguments[i] = (card_argument){i * CARD_SEGMENT_BYTES, bytes};
        b->args.items[i].bytes = s->launch[i].size_bytes;
        memcpy(card_memory(s->card, arguments[i].base, bytes), s->launch[i].bytes, bytes);
    }
    TRY(back_compile(b, &options, s->memory, &program));
    TRY(card_load(s->card, program, &loaded));
    spyre_status status = card_launch(s->card, loaded, arguments, b->args.count, NULL);
    card_unload(s->card, loaded);
    for (uint32_t i = 0; i < b->args.count; i++)
        memcpy(s->launch[i].bytes,
               card_memory(s->card, arguments[i].base, arguments[i].limit),
               arguments[i].limit);
    return status;
}

static spyre_status launch(session *s)
{
    bundle *b;
    TRY(bundle_read(s->memory, s->directory, s->pool_first, &b));
    if (b->args.count > s->launch_count) {
        return status_new(SPYRE_INVALID_ARGUMENT, "%s: %u launch arguments, %u buffers",
                          s->directory, b->args.count, s->launch_count);
    }
    TRY(status_at(s->card ? launch_on_card(s, b) : bundle_interpret(b, s->launch, s->lx), "%s",
                  s->directory));
    s->launch_count = 0;
    return NULL;
}

static spyre_status execute_line(session *s, char *line)
{
    char *value = strchr(line, ' ');
    if (value) *value++ = '\0';
    if (strcmp(line, "run") == 0) return launch(s);
    if (value && strcmp(line, "bundle") == 0) s->directory = value;
    else if (value && strcmp(line, "pool") == 0) s->pool_first = strcmp(value, "1") == 0;
    else if (value && strcmp(line, "buffer") == 0) return add_buffer(s, value);
    else return status_new(SPYRE_INVALID_FORMAT, "request: unknown line '%s'", line);
    return NULL;
}

static spyre_status run(arena *memory, const char *request, const char *engine)
{
    session s = {.memory = memory};
    char *text_bytes;
    size_t length;
    TRY(file_read(memory, request, LIMIT_BYTES, &text_bytes, &length));
    s.lx = arena_alloc(memory, (size_t)BUNDLE_MAX_CORES * BUNDLE_LX_BYTES);
    TRY_ALLOC(s.lx);
    if (strcmp(engine, "interpreter") != 0) {
        TRY(card_create(&s.card));
        card_set_mode(s.card, strcmp(engine, "exact") == 0 ? CARD_EXACT : CARD_FAST);
    }
    spyre_status status = NULL;
    for (char *line = strtok(text_bytes, "\n"); line; line = strtok(NULL, "\n"))
        TRY_DONE(execute_line(&s, line));
    for (uint32_t i = 0; i < s.buffer_count; i++)
        TRY_DONE(file_write(s.paths[i], s.buffers[i].bytes, (size_t)s.buffers[i].size_bytes));
done:
    if (s.card) card_destroy(s.card);
    return status;
}

static spyre_status rewrite(arena *memory, char **arguments)
{
    bundle *b;
    bool symbolic = strcmp(arguments[2], "symbolic") == 0;
    TRY(bundle_read(memory, arguments[0], strcmp(arguments[3], "1") == 0, &b));
    return bundle_write_form(b, arguments[1],
                             symbolic ? BUNDLE_FORM_SYMBOLIC : BUNDLE_FORM_ABSOLUTE);
}

int main(int count, char **arguments)
{
    arena *memory = arena_create();
    spyre_status status;
    const char *engine = count == 4 ? arguments[3] : "interpreter";
    bool known = strcmp(engine, "interpreter") == 0 || strcmp(engine, "card") == 0 ||
                 strcmp(engine, "exact") == 0;
    if (!memory) {
        status = status_no_memory();
    } else if ((count == 3 || count == 4) && known && strcmp(arguments[1], "run") == 0) {
        status = run(memory, arguments[2], engine);
    } else if (count == 6 && strcmp(arguments[1], "rewrite") == 0) {
        status = rewrite(memory, arguments + 2);
    } else {
        status = status_new(SPYRE_INVALID_ARGUMENT, "usage: spyre_samples run REQUEST "
                                                    "[interpreter | card | exact] | "
                                                    "rewrite FROM TO FORM POOL");
    }
    if (status) fprintf(stderr, "spyre_samples: %s\n", spyre_status_message(status));
    int result = status ? 1 : 0;
    spyre_status_free(status);
    arena_destroy(memory);
    return result;
}
