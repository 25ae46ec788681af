// SPDX-License-Identifier: Apache-2.0
//
// spyrecode.json in the keys that torch-spyre's runtime reads; all numbers are decimal strings.
#include <inttypes.h>

#include "base/file.h"
#include "base/json.h"
#include "spyrecode/model.h"

// jansson's setters take over the value and fail on null, so one check at the end suffices.
typedef struct {
    json_t *object;
    bool failed;
} properties;

static void set(properties *p, const char *key, json_t *value)
{
    if (json_object_set_new(p->object, key, value) != 0) p->failed = true;
}

static json_t *decimal(uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    return json_string(digits);
}

static void set_number(properties *p, const char *key, uint64_t value)
{
    set(p, key, decimal(value));
}

static properties new_properties(void)
{
    properties p = {.object = json_object()};
    p.failed = p.object == NULL;
    return p;
}

// The object, or null.
static json_t *finish(const properties *p)
{
    if (!p->failed) return p->object;
    json_decref(p->object);
    return NULL;
}

// {"command": name, "properties": p}, or null.
static json_t *command_of(const char *name, const properties *p)
{
    json_t *object = finish(p);
    return object ? json_pack("{s:s, s:o}", "command", name, "properties", object) : NULL;
}

static json_t *patch_of(const spyrecode_patch *patch)
{
    properties p = new_properties();
    set_number(&p, "offset", patch->offset);
    if (patch->source == SPYRECODE_FROM_ARGUMENT) {
        set(&p, "source", json_string("argument"));
        set_number(&p, "index", patch->index);
    } else if (patch->source == SPYRECODE_FROM_SIZES) {
        set(&p, "source", json_string("sizes"));
        set_number(&p, "index", patch->index);
    } else {
        set(&p, "source", json_string("address"));
        set_number(&p, "address", patch->address);
        set_number(&p, "size", patch->byte_count);
    }
    return finish(&p);
}

static json_t *operand_of(const spyrecode_operand *operand)
{
    properties p = new_properties();
    set_number(&p, "index", operand->index);
    if (operand->format != SPYRE_FORMAT_INVALID)
        set(&p, "format", json_string(spyre_format_name(operand->format)));
    set_number(&p, "least_bytes", (uint64_t)operand->least_bytes);
    json_t *walks = json_array();
    for (uint32_t n = 0; n < operand->walk_count; n++) {
        const spyrecode_walk *walk = &operand->walks[n];
        json_t *pair = json_pack("[o, o]", decimal((uint64_t)walk->step_bytes),
                                 decimal((uint64_t)walk->count));
        if (json_array_append_new(walks, pair) != 0) p.failed = true;
    }
    set(&p, "walks", walks);
    json_t *layout = json_array(), *tiles = json_array();
    for (uint32_t d = 0; d < operand->layout.rank; d++) {
        json_t *pair = json_pack("[o, o]", decimal((uint64_t)operand->layout.device_size[d]),
                                 json_sprintf("%" PRId64, operand->layout.stride_map[d]));
        if (json_array_append_new(layout, pair) != 0) p.failed = true;
    }
    for (uint32_t n = 0; n < operand->tile_count; n++) {
        const spyrecode_tile *tile = &operand->tiles[n];
        json_t *pair = json_pack("[o, o]", decimal(tile->way), decimal(tile->dim));
        if (json_array_append_new(tiles, pair) != 0) p.failed = true;
    }
    set(&p, "layout", layout);
    set(&p, "tiles", tiles);
    if (operand->variation_count == 0) return finish(&p);
    json_t *varies = json_array();
    for (uint32_t n = 0; n < operand->variation_count; n++) {
        const spyrecode_variation *v = &operand->variations[n];
        json_t *pair = json_pack("[o, o]", decimal(v->field), decimal(v->expression));
        if (json_array_append_new(varies, pair) != 0) p.failed = true;
    }
    set(&p, "varies", varies);
    return finish(&p);
}

// ["128", "0", "1", "1"]: 128 times symbol 0 and the square of symbol 1.
static json_t *term_of(const spyrecode_term *term)
{
    json_t *list = json_array();
    bool failed = json_array_append_new(
        list, json_sprintf("%" PRId64, term->factor)) != 0;
    for (uint32_t s = 0; s < SPYRECODE_MOST_SYMBOLS; s++)
        for (uint32_t n = 0; n < term->power[s]; n++)
            failed = json_array_append_new(list, decimal(s)) || failed;
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

static void set_sizes(properties *p, const spyrecode_sizes *sizes)
{
    json_t *symbols = json_array(), *expressions = json_array();
    if (sizes->symbol_count == 0) {
        json_decref(symbols);
        json_decref(expressions);
        return;
    }
    for (uint32_t s = 0; s < sizes->symbol_count; s++) {
        properties one = new_properties();
        set(&one, "name", json_string(sizes->symbols[s].name));
        set_number(&one, "granularity", (uint64_t)sizes->symbols[s].granularity);
        set_number(&one, "most", (uint64_t)sizes->symbols[s].most);
        if (json_array_append_new(symbols, finish(&one)) != 0) p->failed = true;
    }
    for (uint32_t e = 0; e < sizes->expression_count; e++) {
        json_t *terms = json_array();
        for (uint32_t t = 0; t < sizes->expressions[e].term_count; t++)
            if (json_array_append_new(terms, term_of(&sizes->expressions[e].terms[t])) != 0)
                p->failed = true;
        if (json_array_append_new(expressions, terms) != 0) p->failed = true;
    }
    set(p, "symbols", symbols);
    set(p, "expressions", expressions);
}

static json_t *metadata_of(const spyrecode_command *command)
{
    properties p = new_properties();
    set_number(&p, "version", 1);
    set_number(&p, "program_bytes", command->program_bytes);
    json_t *patches = json_array();
    for (uint32_t n = 0; n < command->patch_count; n++) {
        if (json_array_append_new(patches, patch_of(&command->patches[n])) != 0) p.failed = true;
    }
    set(&p, "patches", patches);
    set_sizes(&p, &command->sizes);
    if (command->operand_count == 0) return finish(&p);
    json_t *operands = json_array();
    for (uint32_t n = 0; n < command->operand_count; n++) {
        if (json_array_append_new(operands, operand_of(&command->operands[n])) != 0)
            p.failed = true;
    }
    set(&p, "arguments", operands);
    return finish(&p);
}

static json_t *compute_on_host(const spyrecode_command *command)
{
    properties p = new_properties();
    set(&p, "ihandle", json_string(command->input));
    json_t *shape = json_array();
    if (json_array_append_new(shape, decimal(command->argument_count)) != 0) p.failed = true;
    set(&p, "ishape", shape);
    set(&p, "ohandle", json_string(command->handle));
    set_number(&p, "size", command->byte_count);
    set(&p, "hcm", command->foreign ? json_loads(command->foreign, 0, NULL)
                                    : metadata_of(command));
    return command_of("ComputeOnHost", &p);
}

static json_t *execution_command(const spyrecode_command *command)
{
    if (command->kind == SPYRECODE_COMPUTE_ON_HOST) return compute_on_host(command);
    properties p = new_properties();
    if (command->kind == SPYRECODE_COMPUTE_ON_DEVICE) {
        set_number(&p, "job_bin_ptr", command->address);
        if (command->name) set(&p, "name", json_string(command->name));
        return command_of("ComputeOnDevice", &p);
    }
    set(&p, "dirn", json_string(command->to_host ? "true" : "false"));
    set(&p, "host_handle", json_string(command->handle));
    set_number(&p, "dev_ptr", command->address);
    set_number(&p, "size", command->byte_count);
    return command_of("DataTransfer", &p);
}

static json_t *preparation_command(const spyrecode_transfer *transfer)
{
    properties p = new_properties();
    set(&p, "init_bin_file", json_string(transfer->name));
    set_number(&p, "dev_ptr", transfer->target);
    set_number(&p, "size", transfer->byte_count);
    return command_of("InitTransfer", &p);
}

static json_t *document_of(const spyrecode *code)
{
    json_t *preparation = json_array(), *execution = json_array();
    properties allocate = new_properties();
    set_number(&allocate, "size", code->space_bytes);
    bool failed = json_array_append_new(preparation, command_of("Allocate", &allocate)) != 0;
    for (uint32_t n = 0; n < code->transfers.count; n++) {
        json_t *command = preparation_command(&code->transfers.items[n]);
        failed = json_array_append_new(preparation, command) != 0 || failed;
    }
    for (uint32_t n = 0; n < code->commands.count; n++) {
        json_t *command = execution_command(&code->commands.items[n]);
        failed = json_array_append_new(execution, command) != 0 || failed;
    }
    json_t *document = json_pack("{s:o, s:o}", "JobPreparationPlan", preparation, "JobExecPlan",
                                 execution);
    if (!failed) return document;
    json_decref(document);
    return NULL;
}

spyre_status spyrecode_print(const spyrecode *code, unsigned indent, text *out)
{
    json_t *document = document_of(code);
    TRY_ALLOC(document);
    spyre_status status = json_print(document, indent, out);
    json_decref(document);
    return status ? status : text_status(out);
}

spyre_status spyrecode_write(const spyrecode *code, const char *directory)
{
    TRY(spyrecode_verify(code));
    TRY(file_make_directories(directory));
    for (uint32_t n = 0; n < code->transfers.count; n++) {
        const spyrecode_transfer *transfer = &code->transfers.items[n];
        const char *path = file_join(code->memory, directory, transfer->name);
        TRY_ALLOC(path);
        TRY(file_write(path, transfer->bytes, transfer->byte_count));
    }
    const char *path = file_join(code->memory, directory, "spyrecode.json");
    TRY_ALLOC(path);
    text out = {0};
    spyre_status status = spyrecode_print(code, 2, &out);
    text_append(&out, "\n");
    if (!status) status = text_status(&out);
    if (!status) status = file_write(path, text_string(&out), out.length);
    text_free(&out);
    return status;
}
