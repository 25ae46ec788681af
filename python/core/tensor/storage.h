// SPDX-License-Identifier: Apache-2.0
//
// What storage.c, which has the records and their card memory, shares with storage_values.c.
#ifndef CORE_STORAGE_H
#define CORE_STORAGE_H

#include "core.h"

struct storage_memory {
    _Atomic uint32_t storages;
    bool extends;                       // they extend one another; else they are views
    int64_t used;                       // extends: bytes of the longest one, under the lock; zeros
                                        // behind them
    uint64_t address;
    int64_t bytes;
    void *pointer;                      // what profilers know it by
};

// Bytes from the first to behind the last element of a view; 0 when it has no elements.
int64_t storage_extent_bytes(const spyre_view *view, spyre_dtype dtype);

// Gives a record its type and card memory, with `room` bytes behind the layout's.
bool storage_give_memory(storage *s, spyre_dtype dtype, const spyre_view *dense,
                         const spyre_layout *layout, int64_t room);

// Frees such memory, of which the storage may know no more.
void storage_free_memory(const storage *s, uint64_t address, int64_t bytes);

// Gives up the storage's card memory, which others may have yet.
void storage_leave_memory(storage *s);

// The form of elements that the card has no format for: their bytes, as the host has them.
bool storage_form_of_bytes(int64_t bytes, spyre_view *dense, spyre_layout *layout);

#endif
