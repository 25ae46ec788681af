// SPDX-License-Identifier: Apache-2.0
#include "compile/card_bytes.h"

#include "base/integer.h"

enum { WORDS = SPYRE_STICK_BYTES / sizeof(int32_t) };

int64_t card_bytes_sticks(int64_t bytes)
{
    return divide_up(bytes, SPYRE_STICK_BYTES);
}

static spyre_status copy(const card_bytes *place, const void *source, void *target)
{
    spyre_layout layout = {.rank = 2, .device_size = {place->sticks, WORDS},
                           .stride_map = {WORDS, 1}, .format = SPYRE_FORMAT_IEEE_INT32};
    spyre_view view = {.rank = 1, .size = {place->sticks * WORDS}, .stride = {1}};
    const spyre_transfer transfer = {.card = place->card, .stream = place->stream,
                                     .address = place->address, .layout = &layout,
                                     .storage = &view, .dtype = SPYRE_DTYPE_I32};
    return target ? spyre_copy_to_host(place->context, &transfer, target)
                  : spyre_copy_to_card(place->context, &transfer, source);
}

spyre_status card_bytes_write(const card_bytes *place, const void *host)
{
    return copy(place, host, NULL);
}

spyre_status card_bytes_read(const card_bytes *place, void *host)
{
    return copy(place, NULL, host);
}
