// SPDX-License-Identifier: Apache-2.0
#include "spyre/dtype.h"

#include <stdbool.h>
#include <string.h>

#include "base/status.h"
#include "tensor/format.h"

typedef struct {
    const char *name;
    uint32_t bits, of_stick;                // elements of a stick
    format_class number_class;
} format_row;

typedef struct {
    const char *name;
    uint32_t bytes;
    spyre_format host_format;
    spyre_format card_format;
} dtype_row;

static const format_row formats[SPYRE_FORMAT_COUNT] = {
#define SPYRE_FORMAT_ROW(name, number, bits, number_class) \
    [number] = {#name, bits, (bits) ? SPYRE_STICK_BYTES * 8 / ((bits) + !(bits)) : 0,   \
                FORMAT_##number_class},
#include "spyre/dtype.def"
};

static const dtype_row dtypes[SPYRE_DTYPE_COUNT] = {
#define SPYRE_DTYPE_ROW(name, torch_name, word, bytes, host_format, card_format) \
    {torch_name, bytes, SPYRE_FORMAT_##host_format, SPYRE_FORMAT_##card_format},
#include "spyre/dtype.def"
};

static bool is_format(spyre_format format)
{
    return (unsigned)format < SPYRE_FORMAT_COUNT;
}

static bool is_dtype(spyre_dtype dtype)
{
    return (unsigned)dtype < SPYRE_DTYPE_COUNT;
}

const char *spyre_format_name(spyre_format format)
{
    return is_format(format) ? formats[format].name : "?";
}

spyre_format spyre_format_named(const char *name)
{
    for (unsigned i = 0; i < SPYRE_FORMAT_COUNT; i++) {
        if (strcmp(formats[i].name, name) == 0) return (spyre_format)i;
    }
    return SPYRE_FORMAT_INVALID;
}

uint32_t spyre_format_bits(spyre_format format)
{
    return is_format(format) ? formats[format].bits : 0;
}

uint32_t spyre_format_bytes(spyre_format format)
{
    uint32_t bits = spyre_format_bits(format);
    return bits % 8 == 0 ? bits / 8 : 0;
}

format_class format_class_of(spyre_format format)
{
    return is_format(format) ? formats[format].number_class : FORMAT_NONE;
}

uint32_t spyre_format_elements_per_stick(spyre_format format)
{
    return is_format(format) ? formats[format].of_stick : 0;
}

const char *spyre_dtype_name(spyre_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].name : "?";
}

spyre_status spyre_dtype_named(const char *name, spyre_dtype *out_dtype)
{
    for (unsigned i = 0; i < SPYRE_DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        *out_dtype = (spyre_dtype)i;
        return NULL;
    }
    return status_new(SPYRE_NOT_FOUND, "dtype \"%.40s\" is not known", name);
}

uint32_t spyre_dtype_bytes(spyre_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].bytes : 0;
}

spyre_format spyre_dtype_host_format(spyre_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].host_format : SPYRE_FORMAT_INVALID;
}

spyre_format spyre_dtype_card_format(spyre_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].card_format : SPYRE_FORMAT_INVALID;
}
