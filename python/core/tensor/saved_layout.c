// SPDX-License-Identifier: Apache-2.0
//
// The form of a storage as text, in which torch.save() and pickle keep it:
//
//   spyre_layout:float16;64,128;128,1;64,64,..;..;0;0
//
// dtype, sizes and strides of the dense tensor, device_size, stride_map, format, arrangement. A
// tensor whose storage has the form of a new tensor has none of it, so its files are as any
// device's.
#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "spyre_layout:";

// ---- writing

static void put_numbers(char *text, size_t *length, const int64_t *numbers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        *length += (size_t)snprintf(text + *length, LAYOUT_TEXT_BYTES - *length, "%s%lld",
                                    i ? "," : ";", (long long)numbers[i]);
    if (count == 0) *length += (size_t)snprintf(text + *length, LAYOUT_TEXT_BYTES - *length, ";");
}

// 36 numbers of at most 20 characters: no text is cut.
bool layout_write_text(const void *tensor, char text[LAYOUT_TEXT_BYTES])
{
    tensor_info t;
    if (!tensor_describe(tensor_handle(tensor), &t) || t.numel == 0 || tensor_has_own_form(&t))
        return false;
    const storage *s = t.storage;
    size_t length = (size_t)snprintf(text, LAYOUT_TEXT_BYTES, "%s%s", prefix,
                                     spyre_dtype_name(s->dtype));
    put_numbers(text, &length, s->dense.size, s->dense.rank);
    put_numbers(text, &length, s->dense.stride, s->dense.rank);
    put_numbers(text, &length, s->layout.device_size, s->layout.rank);
    put_numbers(text, &length, s->layout.stride_map, s->layout.rank);
    snprintf(text + length, LAYOUT_TEXT_BYTES - length, ";%d;%d", (int)s->layout.format,
             (int)s->layout.arrangement);
    return true;
}

// ---- reading

// The numbers of one field behind ';'; -1 for other text or too many.
static int64_t take_numbers(const char **at, int64_t *out, int64_t capacity)
{
    if (**at != ';') return -1;
    (*at)++;
    int64_t count = 0;
    while (**at && **at != ';') {
        char *end;
        if (count == capacity) return -1;
        out[count++] = strtoll(*at, &end, 10);
        if (end == *at) return -1;
        *at = *end == ',' ? end + 1 : end;
        if (*end && *end != ',' && *end != ';') return -1;
    }
    return count;
}

static bool parse(const char *text, spyre_dtype *dtype, spyre_view *dense, spyre_layout *layout)
{
    char name[32];
    size_t length = strcspn(text, ";");
    if (length >= sizeof name) return false;
    memcpy(name, text, length);
    name[length] = '\0';
    if (!core_check(spyre_dtype_named(name, dtype))) return false;
    const char *at = text + length;
    *dense = (spyre_view){.rank = 0};
    *layout = (spyre_layout){.rank = 0};
    int64_t kind[2];
    int64_t rank = take_numbers(&at, dense->size, SPYRE_MAX_RANK);
    int64_t strides = take_numbers(&at, dense->stride, SPYRE_MAX_RANK);
    int64_t dims = take_numbers(&at, layout->device_size, SPYRE_MAX_DEVICE_RANK);
    int64_t steps = take_numbers(&at, layout->stride_map, SPYRE_MAX_DEVICE_RANK);
    if (rank < 0 || strides != rank || dims < 0 || steps != dims ||
        take_numbers(&at, &kind[0], 1) != 1 || take_numbers(&at, &kind[1], 1) != 1 || *at)
        return false;
    dense->rank = (uint32_t)rank;
    layout->rank = (uint32_t)dims;
    layout->format = (spyre_format)kind[0];
    layout->arrangement = (spyre_arrangement)kind[1];
    int64_t elements;
    return tensor_count_elements(rank, dense->size, dense->stride, &elements) && elements > 0;
}

bool layout_read_text(const void *tensor, const char *text)
{
    if (strncmp(text, prefix, sizeof prefix - 1) != 0) return true;
    tensor_info t;
    spyre_dtype dtype;
    spyre_view dense;
    spyre_layout layout;
    if (!tensor_describe(tensor_handle(tensor), &t)) return false;
    if (!t.storage || t.numel == 0) return true;
    if (!parse(text + sizeof prefix - 1, &dtype, &dense, &layout))
        return core_fail(SPYRE_INVALID_ARGUMENT, "\"%.80s\" is no layout of a storage", text);
    return storage_set_form(t.storage, dtype, &dense, &layout);
}
