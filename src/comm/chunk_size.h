// SPDX-License-Identifier: Apache-2.0
//
// Sizes of the chunks in which collectives pass data through staging (collective.h), in bytes of
// the tensor. Larger chunks meet less often; smaller ones begin to overlap sooner, and stay in the
// host's caches between the rank that writes and those that read.
#ifndef COMM_CHUNK_SIZE_H
#define COMM_CHUNK_SIZE_H

#include "comm/combine.h"

enum { CHUNK_BYTES = 512 << 10 };       // of a rank's staging for one chunk

// Of a reduce-scatter: a chunk of each rank's block, whole lines of the host.
static inline uint64_t chunk_size_of_blocks(uint32_t ranks)
{
    return (CHUNK_BYTES / ranks) & ~UINT64_C(63);
}

// Of a chain, whose partial results are as long as these or longer.
static inline uint64_t chunk_size_of_chain(spyre_format format)
{
    return CHUNK_BYTES / spyre_format_bytes(comm_partial_format(format)) *
           spyre_format_bytes(format);
}

#endif
