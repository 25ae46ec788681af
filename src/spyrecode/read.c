// SPDX-License-Identifier: Apache-2.0
//
// The strict reader. Keys of specification 0277 are taken beside those of torch-spyre's runtime:
// file_path for init_bin_file, direction "0" and "1" for dirn "false" and "true". A member that
// neither names is an error: it would ask for something that is not done.
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "spyrecode/model.h"

#define MOST_BYTES ((int64_t)ISA_SEGMENT_BYTES)

typedef struct {
    spyrecode *code;
    json_node properties;               // of the present command
} reader;

// --- Fields

// Fails on a member that is not among `known` (ends with null).
static spyre_status only_members(const json_node *object, const char *const *known)
{
    void *cursor = NULL;
    json_node member;
    while (json_next_member(object, &cursor, &member)) {
        const char *const *name = known;
        while (*name && strcmp(*name, member.key) != 0) name++;
        if (!*name) return json_error_at(&member, "unknown member");
    }
    return NULL;
}

static spyre_status get_unsigned(const json_node *object, const char *key, int64_t most,
                                 uint64_t *out)
{
    json_node member;
    const char *digits;
    int64_t value;
    TRY(json_member(object, key, &member));
    if (json_is_string(member.value)) {
        TRY(json_as_string(&member, &digits));
        if (digits[strspn(digits, " \t")] == '-')
            return json_error_at(&member, "\"%.24s\": negative value not allowed for unsigned "
                                 "integer", digits);
    }
    TRY(json_as_number(&member, 0, most, &value));
    *out = (uint64_t)value;
    return NULL;
}

static spyre_status get_size(const json_node *object, const char *key, uint64_t *out)
{
    return get_unsigned(object, key, MOST_BYTES, out);
}

static spyre_status get_address(const json_node *object, const char *key, uint64_t *out)
{
    return get_unsigned(object, key, INT64_MAX, out);
}

static spyre_status get_name(reader *r, const json_node *object, const char *key,
                             const char **out)
{
    const char *name;
    TRY(json_get_string(object, key, &name));
    *out = arena_strdup(r->code->memory, name);
    TRY_ALLOC(*out);
    return NULL;
}

// A plain file name: what a job brings lies in its own directory.
static spyre_status get_file(reader *r, const json_node *object, const char **out)
{
    json_node member;
    const char *key = json_find(object, "file_path", &member) ? "file_path" : "init_bin_file";
    TRY(get_name(r, object, key, out));
    bool plain = **out && !strchr(*out, '/') && strcmp(*out, ".") != 0 && strcmp(*out, "..") != 0;
    if (plain) return NULL;
    TRY(json_member(object, key, &member));
    return json_error_at(&member, "\"%s\" is no plain file name", *out);
}

// --- Preparation

static spyre_status open_command(reader *r, const json_node *command, const char **out_name)
{
    TRY(json_expect_object(command));
    TRY(only_members(command, (const char *const[]){"command", "properties", NULL}));
    TRY(json_get_string(command, "command", out_name));
    return json_get_object(command, "properties", &r->properties);
}

static spyre_status read_init(reader *r)
{
    static const char *const known[] = {"init_bin_file", "file_path", "dev_ptr", "size", NULL};
    const json_node *p = &r->properties;
    spyrecode_transfer transfer = {0};
    TRY(only_members(p, known));
    TRY(get_file(r, p, &transfer.name));
    TRY(get_address(p, "dev_ptr", &transfer.target));
    TRY(get_size(p, "size", &transfer.byte_count));
    return VEC_PUSH(r->code->memory, &r->code->transfers, transfer);
}

static spyre_status read_preparation(reader *r, const json_node *root)
{
    json_node plan, command;
    TRY(json_get_array(root, "JobPreparationPlan", &plan));
    if (json_count(&plan) > SPYRECODE_MOST_COMMANDS)
        return json_error_at(&plan, "more than %d commands", SPYRECODE_MOST_COMMANDS);
    if (json_count(&plan) < 2)
        return json_error_at(&plan, "must hold Allocate and at least one InitTransfer");
    for (size_t n = 0; n < json_count(&plan); n++) {
        const char *name, *expected = n == 0 ? "Allocate" : "InitTransfer";
        TRY(json_item(&plan, n, &command));
        TRY(open_command(r, &command, &name));
        if (strcmp(name, expected) != 0)
            return json_error_at(&command, "command \"%s\", expected %s", name, expected);
        if (n > 0) {
            TRY(read_init(r));
            continue;
        }
        TRY(only_members(&r->properties, (const char *const[]){"size", NULL}));
        TRY(get_size(&r->properties, "size", &r->code->space_bytes));
    }
    return NULL;
}

// --- Execution

static spyre_status read_patch(const json_node *item, spyrecode_patch *out)
{
    const char *source;
    TRY(json_expect_object(item));
    TRY(json_get_string(item, "source", &source));
    TRY(get_size(item, "offset", &out->offset));
    bool is_size = strcmp(source, "sizes") == 0;
    if (is_size || strcmp(source, "argument") == 0) {
        int64_t index;
        TRY(only_members(item, (const char *const[]){"offset", "source", "index", NULL}));
        TRY(json_get_number(item, "index", 0, SPYRECODE_MOST_PATCHES, &index));
        out->source = is_size ? SPYRECODE_FROM_SIZES : SPYRECODE_FROM_ARGUMENT;
        out->index = (uint32_t)index;
        return NULL;
    }
    if (strcmp(source, "address") != 0)
        return json_error_at(item, "source \"%s\", expected argument, address or sizes",
                             source);
    TRY(only_members(item, (const char *const[]){"offset", "source", "address", "size", NULL}));
    out->source = SPYRECODE_FROM_ADDRESS;
    TRY(get_address(item, "address", &out->address));
    return get_size(item, "size", &out->byte_count);
}

static spyre_status read_walk(const json_node *item, spyrecode_walk *out)
{
    json_node step, count;
    TRY(json_expect_array_of(item, 2));
    TRY(json_item(item, 0, &step));
    TRY(json_item(item, 1, &count));
    TRY(json_as_number(&step, SPYRECODE_ALIGNMENT, MOST_BYTES, &out->step_bytes));
    return json_as_number(&count, 1, MOST_BYTES, &out->count);
}

static spyre_status read_variations(reader *r, const json_node *list, spyrecode_operand *out)
{
    json_node item, member;
    int64_t field, expression;
    TRY(json_expect_array(list));
    if (json_count(list) > 1 + 2 * SPYRECODE_MOST_WALKS)
        return json_error_at(list, "more than %d", 1 + 2 * SPYRECODE_MOST_WALKS);
    out->variation_count = (uint32_t)json_count(list);
    spyrecode_variation *variations =
        ARENA_NEW(r->code->memory, spyrecode_variation, out->variation_count);
    TRY_ALLOC(variations);
    for (uint32_t n = 0; n < out->variation_count; n++) {
        TRY(json_item(list, n, &item));
        TRY(json_expect_array_of(&item, 2));
        TRY(json_item(&item, 0, &member));
        TRY(json_as_number(&member, 0, 2 * SPYRECODE_MOST_WALKS, &field));
        TRY(json_item(&item, 1, &member));
        TRY(json_as_number(&member, 0, UINT32_MAX, &expression));
        variations[n] = (spyrecode_variation){(uint32_t)field, (uint32_t)expression};
    }
    out->variations = variations;
    return NULL;
}

static spyre_status read_layout(const json_node *list, spyre_layout *out)
{
    json_node item, member;
    TRY(json_expect_array(list));
    if (json_count(list) > SPYRE_MAX_DEVICE_RANK)
        return json_error_at(list, "more than %d", SPYRE_MAX_DEVICE_RANK);
    out->rank = (uint32_t)json_count(list);
    for (uint32_t d = 0; d < out->rank; d++) {
        TRY(json_item(list, d, &item));
        TRY(json_expect_array_of(&item, 2));
        TRY(json_item(&item, 0, &member));
        TRY(json_as_number(&member, 0, MOST_BYTES, &out->device_size[d]));
        TRY(json_item(&item, 1, &member));
        TRY(json_as_number(&member, -1, MOST_BYTES, &out->stride_map[d]));
    }
    return NULL;
}

static spyre_status read_tiles(reader *r, const json_node *list, spyrecode_operand *out)
{
    json_node item, member;
    int64_t way, dim, next = 0;
    TRY(json_expect_array(list));
    out->tile_count = (uint32_t)json_count(list);
    if (json_count(list) > SPYRECODE_MOST_WAYS)
        return json_error_at(list, "more than %d", SPYRECODE_MOST_WAYS);
    spyrecode_tile *tiles = ARENA_NEW(r->code->memory, spyrecode_tile, out->tile_count);
    TRY_ALLOC(tiles);
    for (uint32_t n = 0; n < out->tile_count; n++) {
        TRY(json_item(list, n, &item));
        TRY(json_expect_array_of(&item, 2));
        TRY(json_item(&item, 0, &member));
        TRY(json_as_number(&member, next, SPYRECODE_MOST_WAYS - 1, &way));
        TRY(json_item(&item, 1, &member));
        TRY(json_as_number(&member, 0, (int64_t)out->layout.rank - 2, &dim));
        tiles[n] = (spyrecode_tile){(uint32_t)way, (uint32_t)dim};
        next = way + 1;
    }
    out->tiles = tiles;
    return NULL;
}

static spyre_status read_operand(reader *r, const json_node *item, spyrecode_operand *out)
{
    static const char *const known[] = {"index", "format", "least_bytes", "walks",
                                        "layout", "tiles", "varies", NULL};
    json_node member, walks, walk;
    int64_t index;
    TRY(json_expect_object(item));
    TRY(only_members(item, known));
    TRY(json_get_number(item, "index", 0, SPYRECODE_MOST_PATCHES, &index));
    out->index = (uint32_t)index;
    out->format = SPYRE_FORMAT_INVALID;
    if (json_find(item, "format", &member)) {
        const char *name;
        TRY(json_as_string(&member, &name));
        out->format = spyre_format_named(name);
        if (out->format == SPYRE_FORMAT_INVALID)
            return json_error_at(&member, "unknown data format \"%.20s\"", name);
    }
    TRY(json_get_number(item, "least_bytes", 0, MOST_BYTES, &out->least_bytes));
    TRY(json_get_array(item, "walks", &walks));
    if (json_count(&walks) > SPYRECODE_MOST_WALKS)
        return json_error_at(&walks, "more than %d walks", SPYRECODE_MOST_WALKS);
    out->walk_count = (uint32_t)json_count(&walks);
    for (uint32_t n = 0; n < out->walk_count; n++) {
        TRY(json_item(&walks, n, &walk));
        TRY(read_walk(&walk, &out->walks[n]));
    }
    if (json_find(item, "layout", &member)) TRY(read_layout(&member, &out->layout));
    if (json_find(item, "tiles", &member)) TRY(read_tiles(r, &member, out));
    return json_find(item, "varies", &member) ? read_variations(r, &member, out) : NULL;
}

// Extension: what a launch may check.
static spyre_status read_operands(reader *r, const json_node *hcm, spyrecode_command *command)
{
    json_node list, item;
    if (!json_find(hcm, "arguments", &list)) return NULL;
    TRY(json_expect_array(&list));
    if (json_count(&list) > SPYRECODE_MOST_PATCHES)
        return json_error_at(&list, "more than %d arguments", SPYRECODE_MOST_PATCHES);
    command->operand_count = (uint32_t)json_count(&list);
    spyrecode_operand *operands =
        ARENA_NEW(r->code->memory, spyrecode_operand, command->operand_count);
    TRY_ALLOC(operands);
    for (uint32_t n = 0; n < command->operand_count; n++) {
        TRY(json_item(&list, n, &item));
        TRY(read_operand(r, &item, &operands[n]));
    }
    command->operands = operands;
    return NULL;
}

static spyre_status read_term(const json_node *item, spyrecode_term *out)
{
    json_node member;
    int64_t symbol;
    TRY(json_expect_array(item));
    if (json_count(item) < 1) return json_error_at(item, "a term begins with its factor");
    TRY(json_item(item, 0, &member));
    TRY(json_as_number(&member, INT64_MIN, INT64_MAX, &out->factor));
    for (size_t n = 1; n < json_count(item); n++) {
        TRY(json_item(item, n, &member));
        TRY(json_as_number(&member, 0, SPYRECODE_MOST_SYMBOLS - 1, &symbol));
        if (out->power[symbol]++ == SPYRECODE_MOST_POWER)
            return json_error_at(item, "symbol %d more than twice", (int)symbol);
    }
    return NULL;
}

static spyre_status read_expression(reader *r, const json_node *list, spyrecode_expression *out)
{
    json_node item;
    TRY(json_expect_array(list));
    if (json_count(list) > SPYRECODE_MOST_TERMS)
        return json_error_at(list, "more than %d terms", SPYRECODE_MOST_TERMS);
    out->term_count = (uint32_t)json_count(list);
    spyrecode_term *terms = ARENA_NEW(r->code->memory, spyrecode_term, out->term_count);
    TRY_ALLOC(terms);
    for (uint32_t n = 0; n < out->term_count; n++) {
        TRY(json_item(list, n, &item));
        TRY(read_term(&item, &terms[n]));
    }
    out->terms = terms;
    return NULL;
}

// Extension: sizes that a launch chooses.
static spyre_status read_sizes(reader *r, const json_node *hcm, spyrecode_sizes *out)
{
    json_node list, item;
    if (!json_find(hcm, "symbols", &list)) return NULL;
    TRY(json_expect_array(&list));
    if (json_count(&list) > SPYRECODE_MOST_SYMBOLS)
        return json_error_at(&list, "more than %d symbols", SPYRECODE_MOST_SYMBOLS);
    out->symbol_count = (uint32_t)json_count(&list);
    spyrecode_symbol *symbols = ARENA_NEW(r->code->memory, spyrecode_symbol, out->symbol_count);
    TRY_ALLOC(symbols);
    for (uint32_t s = 0; s < out->symbol_count; s++) {
        TRY(json_item(&list, s, &item));
        TRY(json_expect_object(&item));
        TRY(only_members(&item, (const char *const[]){"name", "granularity", "most", NULL}));
        TRY(get_name(r, &item, "name", &symbols[s].name));
        TRY(json_get_number(&item, "granularity", 1, MOST_BYTES, &symbols[s].granularity));
        TRY(json_get_number(&item, "most", 1, MOST_BYTES, &symbols[s].most));
    }
    out->symbols = symbols;
    TRY(json_get_array(hcm, "expressions", &list));
    if (json_count(&list) > 2 * SPYRECODE_MOST_PATCHES)
        return json_error_at(&list, "more than %d expressions", 2 * SPYRECODE_MOST_PATCHES);
    out->expression_count = (uint32_t)json_count(&list);
    spyrecode_expression *expressions =
        ARENA_NEW(r->code->memory, spyrecode_expression, out->expression_count);
    TRY_ALLOC(expressions);
    for (uint32_t e = 0; e < out->expression_count; e++) {
        TRY(json_item(&list, e, &item));
        TRY(read_expression(r, &item, &expressions[e]));
    }
    out->expressions = expressions;
    return NULL;
}

// What another back-end says to its own host function: kept, not understood.
static spyre_status keep_metadata(reader *r, const json_node *hcm, const json_node *vdci,
                                  spyrecode_command *command)
{
    text out = {0};
    if (!json_is_object(vdci->value))
        return json_error_at(hcm, "Failed to parse SpyreCode command: the vdci field must be an "
                             "object");
    spyre_status status = json_print(hcm->value, 0, &out);
    if (!status) command->foreign = arena_strdup(r->code->memory, text_string(&out));
    text_free(&out);
    TRY(status);
    TRY_ALLOC(command->foreign);
    return NULL;
}

static spyre_status read_metadata(reader *r, spyrecode_command *command)
{
    json_node hcm, list, item;
    int64_t version;
    TRY(json_get_object(&r->properties, "hcm", &hcm));
    if (json_find(&hcm, "vdci", &item)) return keep_metadata(r, &hcm, &item, command);
    TRY(only_members(&hcm, (const char *const[]){"version", "program_bytes", "patches", "arguments",
                                                 "symbols", "expressions", NULL}));
    TRY(json_get_number(&hcm, "version", 1, 1, &version));
    TRY(get_size(&hcm, "program_bytes", &command->program_bytes));
    TRY(json_get_array(&hcm, "patches", &list));
    if (json_count(&list) > SPYRECODE_MOST_PATCHES)
        return json_error_at(&list, "more than %d patches", SPYRECODE_MOST_PATCHES);
    command->patch_count = (uint32_t)json_count(&list);
    spyrecode_patch *patches = ARENA_NEW(r->code->memory, spyrecode_patch, command->patch_count);
    TRY_ALLOC(patches);
    for (uint32_t n = 0; n < command->patch_count; n++) {
        TRY(json_item(&list, n, &item));
        TRY(read_patch(&item, &patches[n]));
    }
    command->patches = patches;
    TRY(read_sizes(r, &hcm, &command->sizes));
    return read_operands(r, &hcm, command);
}

// How many numbers the input of a host function has.
static spyre_status read_shape(reader *r, spyrecode_command *command)
{
    json_node shape, extent;
    int64_t count = 1;
    TRY(json_member(&r->properties, "ishape", &shape));
    if (!json_is_array(shape.value))
        return json_error_at(&shape, "ComputeOnHost 'ishape' must be an array");
    for (size_t n = 0; n < json_count(&shape); n++) {
        int64_t extents;
        TRY(json_item(&shape, n, &extent));
        TRY(json_as_number(&extent, 0, SPYRECODE_MOST_PATCHES, &extents));
        count *= extents;
        if (count > SPYRECODE_MOST_PATCHES)
            return json_error_at(&shape, "more than %d numbers", SPYRECODE_MOST_PATCHES);
    }
    command->argument_count = (uint32_t)count;
    return NULL;
}

static spyre_status needs(reader *r, const char *command, const char *const *keys)
{
    json_node member;
    for (; *keys; keys++)
        if (!json_find(&r->properties, *keys, &member))
            return json_error_at(&r->properties, "%s command missing '%s' property", command,
                                 *keys);
    return NULL;
}

static spyre_status read_host(reader *r, spyrecode_command *command)
{
    static const char *const needed[] = {"ihandle", "ishape", "ohandle", "size", "hcm", NULL};
    static const char *const known[] = {"ihandle", "ishape", "ohandle", "oshape",
                                        "size",    "hcm",    NULL};
    const json_node *p = &r->properties;
    command->kind = SPYRECODE_COMPUTE_ON_HOST;
    TRY(only_members(p, known));
    TRY(needs(r, "ComputeOnHost", needed));
    TRY(get_name(r, p, "ihandle", &command->input));
    TRY(read_shape(r, command));
    TRY(get_name(r, p, "ohandle", &command->handle));
    TRY(get_size(p, "size", &command->byte_count));
    return read_metadata(r, command);
}

static spyre_status read_direction(const json_node *p, bool *out_to_host)
{
    json_node member;
    bool specified = json_find(p, "direction", &member);
    const char *key = specified ? "direction" : "dirn", *value;
    TRY(json_get_string(p, key, &value));
    const char *to_card = specified ? "0" : "false", *to_host = specified ? "1" : "true";
    *out_to_host = strcmp(value, to_host) == 0;
    if (*out_to_host || strcmp(value, to_card) == 0) return NULL;
    TRY(json_member(p, key, &member));
    return json_error_at(&member, "\"%s\", expected \"%s\" or \"%s\"", value, to_card, to_host);
}

static spyre_status read_transfer(reader *r, spyrecode_command *command)
{
    static const char *const known[] = {"dirn", "direction", "host_handle",
                                        "dev_ptr", "size", NULL};
    const json_node *p = &r->properties;
    command->kind = SPYRECODE_DATA_TRANSFER;
    TRY(only_members(p, known));
    TRY(read_direction(p, &command->to_host));
    TRY(get_name(r, p, "host_handle", &command->handle));
    TRY(get_address(p, "dev_ptr", &command->address));
    return get_size(p, "size", &command->byte_count);
}

static spyre_status read_device(reader *r, spyrecode_command *command)
{
    json_node name;
    command->kind = SPYRECODE_COMPUTE_ON_DEVICE;
    TRY(only_members(&r->properties, (const char *const[]){"job_bin_ptr", "name", NULL}));
    if (json_find(&r->properties, "name", &name))
        TRY(get_name(r, &r->properties, "name", &command->name));
    return get_address(&r->properties, "job_bin_ptr", &command->address);
}

static spyre_status read_execution(reader *r, const json_node *root)
{
    json_node plan, item;
    TRY(json_get_array(root, "JobExecPlan", &plan));
    if (json_count(&plan) > SPYRECODE_MOST_COMMANDS)
        return json_error_at(&plan, "more than %d commands", SPYRECODE_MOST_COMMANDS);
    for (size_t n = 0; n < json_count(&plan); n++) {
        const char *name;
        spyrecode_command command = {0};
        TRY(json_item(&plan, n, &item));
        TRY(open_command(r, &item, &name));
        if (strcmp(name, "ComputeOnHost") == 0) TRY(read_host(r, &command));
        else if (strcmp(name, "DataTransfer") == 0) TRY(read_transfer(r, &command));
        else if (strcmp(name, "ComputeOnDevice") == 0) TRY(read_device(r, &command));
        else return json_error_at(&item, "unknown command \"%s\"", name);
        TRY(VEC_PUSH(r->code->memory, &r->code->commands, command));
    }
    return NULL;
}

// --- Documents

static spyre_status read_document(arena *memory, const json_node *root, spyrecode **out_code)
{
    spyrecode *code = ARENA_NEW(memory, spyrecode, 1);
    TRY_ALLOC(code);
    code->memory = memory;
    reader r = {.code = code};
    TRY(json_expect_object(root));
    TRY(only_members(root, (const char *const[]){"JobPreparationPlan", "JobExecPlan", NULL}));
    TRY(read_preparation(&r, root));
    TRY(read_execution(&r, root));
    TRY(status_at(spyrecode_verify(code), "%s", root->key));
    *out_code = code;
    return NULL;
}

spyre_status spyrecode_parse(arena *memory, const char *name, const char *json, size_t length,
                             spyrecode **out_code)
{
    json_node root;
    TRY(json_read_buffer(name, json, length, &root));
    spyre_status status = read_document(memory, &root, out_code);
    json_close(&root);
    return status;
}

static spyre_status read_bytes(arena *memory, const char *directory, spyrecode_transfer *transfer)
{
    const char *path = file_join(memory, directory, transfer->name);
    TRY_ALLOC(path);
    char *bytes;
    size_t length;
    TRY(file_read_member(memory, directory, transfer->name, (size_t)transfer->byte_count, &bytes,
                         &length));
    if (length != transfer->byte_count) {
        return status_new(SPYRE_INVALID_FORMAT, "%s: %zu bytes, spyrecode.json says %llu", path,
                          length, (unsigned long long)transfer->byte_count);
    }
    transfer->bytes = (const uint8_t *)bytes;
    return NULL;
}

spyre_status spyrecode_read(arena *memory, const char *directory, spyrecode **out_code)
{
    const char *path = file_join(memory, directory, "spyrecode.json");
    TRY_ALLOC(path);
    if (!file_is_directory(directory))
        return status_new(SPYRE_NOT_FOUND, "SpyreCode directory does not exist");
    if (!file_exists(path)) return status_new(SPYRE_NOT_FOUND, "spyrecode.json not found");
    json_node root = {0};
    char *bytes;
    size_t length;
    arena *source = arena_create();             // not needed beyond the parsing
    TRY_ALLOC(source);
    spyre_status status = file_read_member(source, directory, "spyrecode.json", JSON_LIMIT_BYTES,
                                           &bytes, &length);
    if (!status) status = json_read_buffer(path, bytes, length, &root);
    if (!status) status = read_document(memory, &root, out_code);
    json_close(&root);
    arena_destroy(source);
    TRY(status);
    for (uint32_t n = 0; n < (*out_code)->transfers.count; n++)
        TRY(read_bytes(memory, directory, &(*out_code)->transfers.items[n]));
    return NULL;
}
