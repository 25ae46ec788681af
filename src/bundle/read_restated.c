// SPDX-License-Identifier: Apache-2.0
//
// Whether the fields of a step's file that restate others agree with them: the step is written
// again, and what both texts have must be the same. So no field needs a rule of its own.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/map.h"
#include "bundle/files.h"
#include "bundle/read.h"
#include "bundle/write.h"

enum { MOST_LINES = 4, MOST_PATH = 200 };   // of a step

// Where both may differ: places, which are read (absolute or as symbols), and what has a rule or
// several forms of its own (read_schema.c).
static const char *const free_fields[] = {
    "startAddressCoreCorelet_", "isStartAddrSymbolic_", "coreletFoldProp_", "numCoreletsUsed_",
    "sdscFolds_", "debug_handle_",
};

typedef struct {
    arena *memory;
    bundle_warnings *lines;
    const char *step;
    uint32_t found;
} comparison;

static bool is_free(const char *name)
{
    for (size_t i = 0; i < sizeof free_fields / sizeof *free_fields; i++)
        if (strcmp(free_fields[i], name) == 0) return true;
    return false;
}

static spyre_status tell(comparison *c, const char *path, const json_t *said, const json_t *meant)
{
    char *a = json_dumps(said, JSON_ENCODE_ANY), *b = json_dumps(meant, JSON_ENCODE_ANY);
    const char *line = a && b ? arena_printf(c->memory, "%s: %s is %.40s, and the fields that "
                                             "count make it %.40s", c->step, path + 1, a, b)
                              : NULL;
    free(a);
    free(b);
    TRY_ALLOC(line);
    c->found++;
    return VEC_PUSH(c->memory, c->lines, line);
}

static spyre_status compare(comparison *c, const char *path, json_t *said, json_t *meant)
{
    char below[MOST_PATH];
    const char *name;
    json_t *other, *item;
    if (c->found == MOST_LINES || !said || json_typeof(said) != json_typeof(meant)) return NULL;
    if (json_is_array(meant)) {
        if (json_array_size(said) != json_array_size(meant)) return NULL;   // another form
        for (size_t i = 0; i < json_array_size(meant); i++) {
            snprintf(below, sizeof below, "%.150s[%zu]", path, i);
            TRY(compare(c, below, json_array_get(said, i), json_array_get(meant, i)));
        }
        return NULL;
    }
    if (!json_is_object(meant)) return json_equal(said, meant) ? NULL : tell(c, path, said, meant);
    json_object_foreach(meant, name, item) {
        if (is_free(name) || !(other = json_object_get(said, name))) continue;
        snprintf(below, sizeof below, "%.130s.%.40s", path, name);
        TRY(compare(c, below, other, item));
    }
    return NULL;
}

// The one member of an object.
static json_t *only(json_t *object)
{
    return json_object_iter_value(json_object_iter(object));
}

// The number in "sdsc_3.json" is that in "3_add".
static spyre_status compare_numbers(comparison *c, const char *file)
{
    unsigned of_file, of_step;
    bool numbered = sscanf(file, "sdsc_%u.json", &of_file) == 1;
    if (!numbered || sscanf(c->step, "%u_", &of_step) != 1 || of_file == of_step) return NULL;
    const char *line = arena_printf(c->memory, "%s: its file is %s", c->step, file);
    TRY_ALLOC(line);
    return VEC_PUSH(c->memory, c->lines, line);
}

// Ids of symbols are unique over a bundle, but for a file that is executed again.
typedef struct {
    map_bytes numbers;                  // id -> entry of `statement`
    VEC(uint32_t) statement;            // that has it first
} symbol_ids;

static spyre_status compare_ids(comparison *c, symbol_ids *seen, const mlir_program *program,
                                uint32_t at)
{
    const mlir_statement *now = &program->body.items[at];
    uint32_t lines = 0;
    for (uint32_t k = 0; k < now->symbol_count && lines < MOST_LINES; k++) {
        uint32_t number = seen->statement.count, first;
        TRY(map_bytes_intern(c->memory, &seen->numbers, &now->ids[k], sizeof now->ids[k], number,
                             &first));
        TRY(VEC_PUSH(c->memory, &seen->statement, at));
        const mlir_statement *before = &program->body.items[seen->statement.items[first]];
        bool again = before != now && strcmp(before->file, now->file) == 0;
        if (first == number || again) continue;
        const char *line = arena_printf(c->memory, "%s: line %u of bundle.mlir gives symbol %lld "
                                        "another operand, which has one in line %u", c->step,
                                        now->line, (long long)now->ids[k], before->line);
        TRY_ALLOC(line);
        lines++;
        TRY(VEC_PUSH(c->memory, c->lines, line));
    }
    return NULL;
}

static spyre_status compare_step(comparison *c, const bundle_writer *w, const bundle_step *step,
                                 const json_node *root)
{
    json_t *again = writer_step_json(w, step, 0, 1);
    TRY_ALLOC(again);
    json_t *said = only(root->value), *meant = only(again);
    json_t *dscs = json_object_get(said, "dscs_");
    json_t *dsc = only(json_array_get(json_object_get(meant, "dscs_"), 0));
    spyre_status status = NULL;
    c->step = step->name;
    c->found = 0;
    if (step->mask_by_name) json_object_del(dsc, "maskingConstId_");    // a finding of its own
    if (json_array_size(dscs) == 1) status = compare(c, "", only(json_array_get(dscs, 0)), dsc);
    if (!status && json_object_del(meant, "dscs_") == 0) status = compare(c, "", said, meant);
    json_decref(again);
    return status;
}

spyre_status bundle_read_restated(arena *memory, const char *directory, const bundle *b,
                                  bundle_warnings *out_lines)
{
    mlir_program program;
    comparison c = {.memory = memory, .lines = out_lines};
    const bundle_writer w = {.b = b, .form = BUNDLE_FORM_SYMBOLIC, .pool = -1};
    symbol_ids seen = {0};
    uint32_t number = 0;
    char *bytes;
    size_t length;
    TRY(file_read_member(memory, directory, "bundle.mlir", JSON_LIMIT_BYTES, &bytes, &length));
    TRY(mlir_read(memory, bytes, length, false, &program));
    for (uint32_t i = 0; i < program.body.count && number < b->steps.count; i++) {
        json_node root = {0};
        if (program.body.items[i].kind != BUNDLE_EXECUTE) continue;
        const char *file = program.body.items[i].file;
        TRY(file_read_member(memory, directory, file, JSON_LIMIT_BYTES, &bytes, &length));
        TRY(json_read_buffer(file, bytes, length, &root));
        spyre_status status = compare_step(&c, &w, &b->steps.items[number++], &root);
        json_close(&root);
        TRY(status);
        TRY(compare_numbers(&c, file));
        TRY(compare_ids(&c, &seen, &program, i));
    }
    return NULL;
}
