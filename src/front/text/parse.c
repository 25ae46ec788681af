// SPDX-License-Identifier: Apache-2.0
//
// Reads the text form of the loop IR, docs/loop-text.md: what print.c writes, and with other
// blanks. Comments are names and notes.
#include "front/front.h"
#include "front/text/parse.h"

#include <string.h>

// "after lx_planning": true in *out_wanted when it is the program that the caller wants.
static spyre_status read_stage(parse_reader *r, bool *out_wanted)
{
    const char *name;
    scan_blanks(&r->in);
    const scanner before = r->in;
    TRY(scan_name(&r->in, "a pass", &name));
    uint32_t stage = 0;
    while (stage <= FRONT_PASS_COUNT && strcmp(front_stage_name(stage), name) != 0) stage++;
    if (stage > FRONT_PASS_COUNT) return scan_error(&before, "no pass is named '%s'", name);
    r->loops->stage = stage;
    *out_wanted = !r->after || strcmp(r->after, name) == 0;
    return scan_line_end(&r->in);
}

// Moves behind the line that begins the program.
static spyre_status find_program(parse_reader *r)
{
    bool wanted = false;
    if (r->after) {
        const char *stage = "build";
        for (uint32_t i = 0; strcmp(stage, r->after) != 0; stage = front_stage_name(++i))
            if (i == FRONT_PASS_COUNT)
                return status_new(SPYRE_INVALID_ARGUMENT, "no pass is named '%s'", r->after);
    }
    while (parse_next_line(r)) {
        if (scan_accept_word(&r->in, "after")) TRY(read_stage(r, &wanted));
        else if (!r->after) return scan_error(&r->in, "expected 'after' and the name of a pass");
        else r->in.at += strcspn(r->in.at, "\n");
        if (wanted) return NULL;
    }
    return r->after ? status_new(SPYRE_INVALID_ARGUMENT, "%s: nothing is after %s", r->in.file_name,
                                 r->after)
                    : scan_error(&r->in, "expected 'after' and the name of a pass");
}

// "set sencores=8"; the value ends with the line.
static spyre_status read_setting(parse_reader *r)
{
    const char *name;
    TRY(scan_name(&r->in, "a setting", &name));
    TRY(scan_expect(&r->in, "="));
    const scanner before = r->in;
    size_t length = strcspn(r->in.at, "\r\n");
    const char *value = arena_strndup(r->in.memory, r->in.at, length);
    TRY_ALLOC(value);
    r->in.at += length;
    spyre_status refused = spyre_settings_set(&r->loops->settings, name, value);
    if (!refused) return scan_line_end(&r->in);
    spyre_status status = scan_error(&before, "%s", spyre_status_message(refused));
    spyre_status_free(refused);
    return status;
}

static spyre_status read_pool(parse_reader *r)
{
    TRY(scan_int_within(&r->in, "a size", 1, PARSE_MOST_BYTES, &r->loops->pool_bytes));
    return scan_line_end(&r->in);
}

// "return b2[0] 4:100 100:1"
static spyre_status read_return(parse_reader *r)
{
    loop_output output = {0};
    int64_t offset;
    TRY(parse_id(r, 'b', "a buffer", r->loops->buffers.count, &output.buffer));
    TRY(scan_expect(&r->in, "["));
    TRY(scan_int_within(&r->in, "an offset", 0, PARSE_MOST_ELEMENTS, &offset));
    TRY(scan_expect(&r->in, "]"));
    TRY(parse_view(r, &output.view));
    output.view.offset = offset;
    TRY(scan_line_end(&r->in));
    return VEC_PUSH(r->loops->memory, &r->loops->outputs, output);
}

static spyre_status read_line(parse_reader *r)
{
    const loop_graph *loops = r->loops;
    bool returns = loops->outputs.count > 0, computes = returns || loops->ops.count > 0;
    bool heads = !computes && loops->buffers.count == 0;
    if (heads && scan_accept_word(&r->in, "set")) return read_setting(r);
    if (heads && scan_accept_word(&r->in, "pool")) return read_pool(r);
    if (!computes && scan_accept_word(&r->in, "buffer")) return parse_buffer(r);
    if (!returns && scan_accept_word(&r->in, "op")) return parse_op(r);
    if (scan_accept_word(&r->in, "return")) return read_return(r);
    return scan_error(&r->in, "expected %s", returns    ? "return"
                                             : computes ? "op or return"
                                                        : "buffer, op or return");
}

static spyre_status check_replaced(const parse_reader *r)
{
    const loop_graph *loops = r->loops;
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        if (loops->buffers.items[b].replaced_by > loops->outputs.count)
            return scan_error(&r->in, "b%u is replaced by output %u of %u", b,
                              loops->buffers.items[b].replaced_by - 1, loops->outputs.count);
    return NULL;
}

spyre_status loop_parse(const char *source, const char *file_name, const char *after,
                        arena *memory, loop_graph **out_loops)
{
    parse_reader r = {.in = scan_start(memory, source, file_name),
                      .loops = ARENA_NEW(memory, loop_graph, 1),
                      .after = after};
    TRY_ALLOC(r.loops);
    r.loops->memory = memory;
    r.loops->settings = spyre_settings_default();
    TRY(find_program(&r));
    while (parse_next_line(&r)) {
        const scanner before = r.in;
        if (!scan_accept_word(&r.in, "after")) TRY(read_line(&r));
        else if (after) break;
        else return scan_error(&before, "a second program, and none of them is asked for by pass");
    }
    r.loops->cores = r.loops->settings.sencores;
    TRY(check_replaced(&r));
    TRY(parse_make_graph(&r));
    loop_find_live_ranges(r.loops);
    *out_loops = r.loops;
    return NULL;
}
