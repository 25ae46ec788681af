// SPDX-License-Identifier: Apache-2.0
//
// Data conversion information: a transfer between a host view and a laid-out card buffer as a list
// of strided copies with format conversion. The canonical example: (1024, 256) fp16 gives one copy
// of sizes (64, 1024, 4) (innermost first), card strides (1, 64, 65536), host strides (1, 256, 64).
// Source: torch-spyre/torch-spyre, torch_spyre/csrc/spyre_mem.cpp (generate_dci), docs "DMA
// Encoding".
//
// Thread rule: a built dci is read only; several threads may run it on different buffers.
#ifndef TENSOR_DCI_H
#define TENSOR_DCI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "spyre/layout.h"

typedef struct {
    uint32_t rank;                                      // loops, 1..SPYRE_MAX_DEVICE_RANK
    int64_t size[SPYRE_MAX_DEVICE_RANK];                // elements, innermost first
    int64_t card_stride[SPYRE_MAX_DEVICE_RANK];         // elements
    int64_t host_stride[SPYRE_MAX_DEVICE_RANK];         // elements
    int64_t card_offset;                                // elements
    int64_t host_offset;                                // elements
} dci_copy;

typedef struct {
    spyre_format card_format;
    spyre_format host_format;
    uint32_t copy_count;
    dci_copy *copies;                                   // in the arena
} dci;

// The copies that move every element of a storage between host memory (host strides as the
// layout's stride_map says, host_elements in all) and the card. Padding is never touched: a dim
// that its tiles do not divide gives remainder copies. `storage` is the dense host tensor that the
// layout describes. SPYRE_INVALID_ARGUMENT "Invalid device sizes and stride map" when the layout
// does not cover that tensor exactly once; SPYRE_UNSUPPORTED when the formats do not convert
// (uint8 goes to SENUINT32 and SENINT8 only, because its host format does not tell its sign).
// A tensor without elements gives no copies. A device dim of stride 0 gives each of its indices the
// same elements.
SPYRE_MUST_CHECK spyre_status dci_build(arena *memory, const spyre_view *storage,
                                        const spyre_layout *layout, spyre_dtype host_dtype,
                                        dci *out_dci);

// Makes a dci of dci_build read or write another host tensor than the dense `storage`: `view` has
// the same sizes and any strides (permuted, sliced, or 0 for expanded dims when sending to the
// card). SPYRE_UNSUPPORTED when one card dim spans several host dims, as in flattened layouts; make
// the view dense then.
SPYRE_MUST_CHECK spyre_status dci_use_host_view(dci *transfer, const spyre_view *storage,
                                                const spyre_view *view);

// Leaves out of a dci of dci_build what `part` does not touch: a view of any sizes, strides and
// offset over the same host memory as `storage`. Elements of the storage beside the part may stay
// in, because loops are shortened and never split. A part that reaches beyond the storage changes
// nothing.
void dci_use_part(dci *transfer, const spyre_view *storage, const spyre_view *part);

// Makes a dci of dci_use_part read or write a host buffer of *out_elements elements that has room
// for what moves and no more; `out_part` is where in it the part lies. False, and the transfer is
// as it was, when a loop of the layout walks along several dims of the host.
bool dci_pack(dci *transfer, const spyre_view *storage, const spyre_view *part,
              spyre_view *out_part, int64_t *out_elements);

// Bytes on the card that a transfer moves.
int64_t dci_card_bytes(const dci *transfer);

// Divides a transfer into `parts` that move different elements, for as many threads: each loop nest
// along the loop whose steps on the host are the longest. Parts may be empty.
SPYRE_MUST_CHECK spyre_status dci_divide(arena *memory, const dci *transfer, uint32_t parts,
                                         dci *out_parts);

// Dims of more than one element by descending stride into `out_dims`; returns their count.
uint32_t dci_sort_dims(const spyre_view *view, uint32_t *out_dims);

// Runs all copies. `card` is host memory that holds the card's buffer. Both buffers are aligned to
// their elements and large enough for the layout and the view; no copy looks beyond them.
SPYRE_MUST_CHECK spyre_status dci_to_card(const dci *transfer, void *card, const void *host);
// Sets *out_wrapped where an int64 of the host does not fit the card's int32.
SPYRE_MUST_CHECK spyre_status dci_to_card_watched(const dci *transfer, void *card,
                                                  const void *host, bool *out_wrapped);
SPYRE_MUST_CHECK spyre_status dci_to_host(const dci *transfer, void *host, const void *card);

#endif
