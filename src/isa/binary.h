// SPDX-License-Identifier: Apache-2.0
//
// The binary form, for its two directions. docs/isa.md specifies it. Internal to src/isa.
#ifndef ISA_BINARY_H
#define ISA_BINARY_H

#include <string.h>

#include <xxhash.h>

#include "isa/field_counts.h"

#define BINARY_MAGIC "SPYRECOD"
enum {
    BINARY_VERSION = 1,
    BINARY_HEADER_BYTES = ISA_ARGUMENT_TABLE_OFFSET,
    BINARY_KERNEL_BYTES = 24,
    BINARY_MOST_INSTRUCTIONS = 1 << 18,
    BINARY_LONGEST_VARINT = 10,
};

// Offsets of the header's fields; all of them little endian, the rest of the header is zero.
enum {
    BINARY_AT_MAGIC = 0,
    BINARY_AT_VERSION = 8,   // u32
    BINARY_AT_BYTES = 16,    // u64: the whole file
    BINARY_AT_CHECKSUM = 24, // u64
    BINARY_AT_ARGS = 32,     // u32, as all below
    BINARY_AT_KERNELS = 36,
    BINARY_AT_PARAMETERS = 40,
    BINARY_AT_INSTRUCTIONS = 44,
    BINARY_AT_CODE_BYTES = 48,
    BINARY_AT_STRING_BYTES = 52,
    BINARY_AT_VALUES = 56,
    BINARY_AT_CORRECTIONS = 60,
    BINARY_HEADER_USED = 64,
};

// Of everything but the checksum itself and the argument and value tables, which are patched at
// launch.
static inline uint64_t binary_checksum(const uint8_t *bytes, size_t count, size_t table_bytes)
{
    uint64_t hash = XXH3_64bits(bytes, BINARY_AT_CHECKSUM);
    hash = XXH3_64bits_withSeed(bytes + BINARY_AT_ARGS, BINARY_HEADER_BYTES - BINARY_AT_ARGS, hash);
    size_t rest = BINARY_HEADER_BYTES + table_bytes;
    return XXH3_64bits_withSeed(bytes + rest, count - rest, hash);
}

// Beside the format in the byte that an operand begins with.
enum { BINARY_IN_MEMORY = 0x80, BINARY_NUMBER = 0x40 };

#endif
