// SPDX-License-Identifier: Apache-2.0
//
// Sizes that a launch chooses. dimToSymbolMapping_ gives a dim the number of a symbol, whose value
// bundle.mlir says: a parameter with a granularity and a largest value, or a number, which is then
// the size. symbolicDimInfo_ restates both numbers, in data stages those of one core.
#include <string.h>

#include "bundle/read.h"

spyre_status read_symbol(const step_source *source, const json_node *node, int64_t id,
                         mlir_value *out_value)
{
    const mlir_statement *statement = source->statement;
    for (uint32_t i = 0; i < statement->symbol_count; i++) {
        if (statement->ids[i] != id) continue;
        *out_value = statement->values[i];
        return NULL;
    }
    return json_error_at(node, "symbol %lld has no value in bundle.mlir", (long long)id);
}

bool read_is_open(const json_node *dsc, const json_node *size, const char *dim)
{
    json_node mapping, member;
    if (!json_find(dsc, "dimToSymbolMapping_", &mapping) || !json_is_object(mapping.value) ||
        !json_find(&mapping, dim, &member))
        return false;
    return json_is_object(size->value) ||
           (json_is_integer(size->value) && json_integer_value(size->value) == -1);
}

// --- What restates the parameter

static spyre_status check_info(const json_node *info, const bundle_step *step,
                               const bundle_symbol *symbols, bool of_core)
{
    json_node member;
    void *cursor = NULL;
    TRY(json_expect_object(info));
    while (json_next_member(info, &cursor, &member)) {
        char name[sizeof step->dim_name[0] + 1] = {0};
        size_t length = strlen(member.key);
        if (length && member.key[length - 1] == '_') length--;
        if (length < sizeof name) memcpy(name, member.key, length);
        uint32_t d = 0;
        while (d < step->dim_count && strcmp(name, step->dim_name[d]) != 0) d++;
        if (d == step->dim_count || !step->symbol[d])
            return json_error_at(&member, "dimToSymbolMapping_ has no such dim");
        const bundle_symbol *symbol = &symbols[step->symbol[d] - 1];
        int64_t cores = of_core ? step->cores->slices[d] : 1, found;
        TRY(json_get_int(&member, "maxSize_", symbol->most / cores, symbol->most / cores, &found));
        TRY(json_get_int(&member, "granularity_", symbol->granularity / cores,
                         symbol->granularity / cores, &found));
    }
    return NULL;
}

static spyre_status check_stages(const json_node *dsc, const bundle_step *step,
                                 const bundle_symbol *symbols)
{
    static const char *const parts[] = {"ss_", "el_"};
    json_node stages, stage, part, info;
    if (json_find(dsc, "symbolicDimInfo_", &info)) TRY(check_info(&info, step, symbols, false));
    if (json_find(dsc, "N_", &part) && json_find(&part, "symbolicDimInfo_", &info))
        TRY(check_info(&info, step, symbols, false));
    if (!json_find(dsc, "dataStageParam_", &stages) || !json_is_object(stages.value) ||
        !json_find(&stages, "0", &stage) || !json_is_object(stage.value))
        return NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (json_find(&stage, parts[i], &part) && json_is_object(part.value) &&
            json_find(&part, "symbolicDimInfo_", &info))
            TRY(check_info(&info, step, symbols, true));
    return NULL;
}

// --- The mapping

static spyre_status take_size(const json_node *member, uint8_t d, int64_t size, bundle_step *step)
{
    if (step->size[d] && step->size[d] != size)
        return json_error_at(member, "N_ says %lld, bundle.mlir %lld", (long long)step->size[d],
                             (long long)size);
    step->size[d] = size;
    return NULL;
}

static spyre_status read_mapping(const step_source *source, const json_node *member,
                                 bundle_step *step)
{
    json_node item;
    uint8_t d;
    int64_t id = 0;
    mlir_value value = {0};
    TRY(read_key_dim(member, step, &d));
    TRY(json_expect_array_of(member, 1));
    TRY(json_item(member, 0, &item));
    TRY(json_as_int(&item, INT32_MIN, -1, &id));
    TRY(read_symbol(source, &item, id, &value));
    if (!value.symbol) {
        if (value.arg != MLIR_NO_ARG || value.offset < 1)
            return json_error_at(&item, "symbol %lld is no size", (long long)id);
        step->size[d] = 0;                      // the number of bundle.mlir counts
        return take_size(member, d, value.offset, step);
    }
    const bundle_symbol *symbol = &source->program->symbols.items[value.symbol - 1];
    step->symbol[d] = (uint8_t)value.symbol;
    step->symbol_size[d] = (bundle_symbol_size){symbol->most, symbol->granularity};
    if (step->cores->slices[d] < 1 || symbol->granularity % step->cores->slices[d])
        return json_error_at(member, "%d slices are no divisor of granularity %lld",
                             step->cores->slices[d], (long long)symbol->granularity);
    return take_size(member, d, symbol->most, step);
}

spyre_status read_symbolic_sizes(const step_source *source, const json_node *dsc,
                                 bundle_step *step)
{
    json_node mapping, member;
    void *cursor = NULL;
    if (json_find(dsc, "paddingSizes_", &member) && json_count(&member) > 0)
        return json_error_at(&member, "windows are not supported");
    if (json_find(dsc, "dimToSymbolMapping_", &mapping)) {
        TRY(json_expect_object(&mapping));
        while (json_next_member(&mapping, &cursor, &member))
            TRY(read_mapping(source, &member, step));
    }
    return check_stages(dsc, step, source->program ? source->program->symbols.items : NULL);
}
