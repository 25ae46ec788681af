// SPDX-License-Identifier: Apache-2.0
//
// Names of formats, dtypes and opfuncs; layouts and views from raw numbers. Transfers that a small
// layout describes run, with buffers of exactly the size that is asked for.
#include "fuzz/fuzz.h"
#include "spyre/layout.h"
#include "tensor/dci.h"
#include "tensor/opfunc.h"

enum { MOST_BYTES = 1 << 16 };

typedef struct {
    const uint8_t *at;
    size_t left;
} reader;

// One byte a number as a rule; 0xFF is followed by all eight bytes.
static int64_t next(reader *r)
{
    int64_t value = 0;
    if (r->left == 0) return 0;
    r->left--;
    uint8_t byte = *r->at++;
    if (byte != 0xFF || r->left < sizeof value) return (int8_t)byte;
    memcpy(&value, r->at, sizeof value);
    r->at += sizeof value;
    r->left -= sizeof value;
    return value;
}

static spyre_view next_view(reader *r)
{
    spyre_view view = {.rank = (uint32_t)next(r) % (SPYRE_MAX_RANK + 2)};
    for (uint32_t d = 0; d < view.rank && d < SPYRE_MAX_RANK; d++) {
        view.size[d] = next(r);
        view.stride[d] = next(r);
    }
    return view;
}

static spyre_layout next_layout(reader *r)
{
    spyre_layout layout = {.rank = (uint32_t)next(r) % (SPYRE_MAX_DEVICE_RANK + 2),
                           .format = (spyre_format)((uint32_t)next(r) % 21)};
    for (uint32_t d = 0; d < layout.rank && d < SPYRE_MAX_DEVICE_RANK; d++) {
        layout.device_size[d] = next(r);
        layout.stride_map[d] = next(r);
    }
    return layout;
}

static void transfer(arena *memory, const spyre_view *storage, const spyre_layout *layout,
                     spyre_dtype dtype)
{
    dci moves;
    char printed[64];
    spyre_layout_format(layout, printed, sizeof printed);
    if (storage->rank > SPYRE_MAX_RANK) return;
    if (!fuzz_ok(spyre_layout_check(layout))) return;
    if (!fuzz_ok(dci_build(memory, storage, layout, dtype, &moves))) return;
    double host_bytes = spyre_dtype_bytes(dtype), card_bytes = (double)spyre_layout_bytes(layout);
    for (uint32_t d = 0; d < storage->rank; d++) host_bytes *= (double)storage->size[d];
    if (host_bytes > MOST_BYTES || card_bytes > MOST_BYTES || host_bytes < 0) return;
    uint8_t *host = calloc(1, (size_t)host_bytes + 1), *card = calloc(1, (size_t)card_bytes + 1);
    FUZZ_HOLDS(host && card);
    fuzz_ok(dci_to_card(&moves, card, host));
    fuzz_ok(dci_to_host(&moves, host, card));
    free(host);
    free(card);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    const char *name = fuzz_string(memory, bytes, count);
    reader r = {bytes, count};
    spyre_dtype dtype;
    spyre_layout layout;
    spyre_format_named(name);
    opfunc_named(name);
    fuzz_ok(spyre_dtype_named(name, &dtype));
    dtype = (spyre_dtype)((uint32_t)next(&r) % SPYRE_DTYPE_COUNT);
    spyre_view storage = next_view(&r);
    int32_t order[SPYRE_MAX_RANK + 2];
    for (uint32_t d = 0; d < SPYRE_MAX_RANK + 2; d++) order[d] = (int32_t)next(&r);
    bool fits = storage.rank <= SPYRE_MAX_RANK;
    if (fuzz_ok(spyre_layout_default(storage.size, storage.rank, dtype, &layout)))
        transfer(memory, &storage, &layout, dtype);
    if (fits && fuzz_ok(spyre_layout_ordered(storage.size, storage.stride, storage.rank, dtype,
                                             order, storage.rank + count % 2, &layout)))
        transfer(memory, &storage, &layout, dtype);
    if (fits && fuzz_ok(spyre_layout_dense(&storage, dtype, &layout)))
        transfer(memory, &storage, &layout, dtype);
    layout = next_layout(&r);
    transfer(memory, &storage, &layout, dtype);
    arena_destroy(memory);
    return 0;
}
