// SPDX-License-Identifier: Apache-2.0
//
// Program correction on the host: launch arguments and sizes become the bytes that are sent to the
// card.
#include <string.h>

#include "spyrecode/model.h"

static bool add_term(const spyrecode_sizes *sizes, const spyrecode_term *term,
                     const int64_t *granules, int64_t *sum)
{
    int64_t product = term->factor;
    for (uint32_t s = 0; s < sizes->symbol_count; s++)
        for (uint32_t n = 0; n < term->power[s]; n++)
            if (__builtin_mul_overflow(product, granules[s], &product)) return false;
    return !__builtin_add_overflow(*sum, product, sum);
}

spyre_status spyrecode_evaluate(const spyrecode_sizes *sizes, uint32_t expression,
                                const int64_t *granules, int64_t *out_value)
{
    const spyrecode_expression *e = &sizes->expressions[expression];
    *out_value = 0;
    for (uint32_t n = 0; n < e->term_count; n++)
        if (!add_term(sizes, &e->terms[n], granules, out_value))
            return status_new(SPYRE_INVALID_ARGUMENT, "hcm.expressions[%u]: beyond 64 bits",
                              expression);
    return NULL;
}

spyre_status spyrecode_operand_at(const spyrecode_sizes *sizes, const spyrecode_operand *operand,
                                  const int64_t *granules, spyrecode_operand *out_operand)
{
    *out_operand = *operand;
    for (uint32_t n = 0; n < operand->variation_count; n++) {
        const spyrecode_variation *v = &operand->variations[n];
        TRY(spyrecode_evaluate(sizes, v->expression, granules,
                               spyrecode_operand_field(out_operand, v->field)));
    }
    return NULL;
}

uint32_t spyrecode_longer_dim(const spyre_layout *layout, uint32_t d)
{
    while (d < layout->rank && layout->device_size[d] == 1) d++;
    return d;
}

bool spyrecode_same_places(const spyre_layout *a, const spyre_layout *b)
{
    uint32_t i = spyrecode_longer_dim(a, 0), j = spyrecode_longer_dim(b, 0);
    while (i < a->rank && j < b->rank && a->device_size[i] == b->device_size[j] &&
           a->stride_map[i] == b->stride_map[j]) {
        i = spyrecode_longer_dim(a, i + 1);
        j = spyrecode_longer_dim(b, j + 1);
    }
    return i == a->rank && j == b->rank;
}

static spyre_status value_of(const spyrecode_command *command, const spyrecode_patch *patch,
                             const uint64_t *arguments, const int64_t *granules, uint64_t *out)
{
    int64_t number = 0;
    switch (patch->source) {
    case SPYRECODE_FROM_ARGUMENT: *out = arguments[patch->index]; return NULL;
    case SPYRECODE_FROM_ADDRESS: *out = patch->address; return NULL;
    case SPYRECODE_FROM_SIZES: break;
    }
    TRY(spyrecode_evaluate(&command->sizes, patch->index, granules, &number));
    *out = (uint64_t)number;
    return NULL;
}

spyre_status spyrecode_correct(const spyrecode_command *command, const uint64_t *arguments,
                               uint32_t argument_count, const int64_t *granules, uint8_t *output)
{
    if (command->foreign) return status_new(SPYRE_UNSUPPORTED, "hcm is of another back-end");
    if (argument_count != command->argument_count) {
        return status_new(SPYRE_INVALID_ARGUMENT, "launch of %u arguments, the code takes %u",
                          argument_count, command->argument_count);
    }
    memset(output, 0, command->byte_count);
    for (uint32_t n = 0; n < command->patch_count; n++) {
        const spyrecode_patch *patch = &command->patches[n];
        uint64_t value;
        TRY(value_of(command, patch, arguments, granules, &value));
        for (uint32_t byte = 0; byte < sizeof value; byte++)
            output[patch->offset + byte] = (uint8_t)(value >> 8 * byte);
    }
    return NULL;
}
