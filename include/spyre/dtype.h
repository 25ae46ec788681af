// SPDX-License-Identifier: Apache-2.0
//
// Element types of host tensors (dtype) and element formats of the card (format).
#ifndef SPYRE_DTYPE_H
#define SPYRE_DTYPE_H

#include <stdint.h>

#include "spyre/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// A stick is 128 aligned contiguous bytes, the unit of every access to the card's memory.
#define SPYRE_STICK_BYTES 128

typedef enum {
#define SPYRE_FORMAT_ROW(name, number, bits, number_class) SPYRE_FORMAT_##name = number,
#include "spyre/dtype.def"
    SPYRE_FORMAT_COUNT          // the rows are in the order of their numbers
} spyre_format;

typedef enum {
#define SPYRE_DTYPE_ROW(name, torch_name, word, bytes, host_format, card_format) SPYRE_DTYPE_##name,
#include "spyre/dtype.def"
    SPYRE_DTYPE_COUNT
} spyre_dtype;

// "SEN169_FP16"; "?" for a value outside the enumeration.
SPYRE_API const char *spyre_format_name(spyre_format format);

// The format of that name, or SPYRE_FORMAT_INVALID.
SPYRE_API spyre_format spyre_format_named(const char *name);

// Bits and whole bytes an element; 0 bytes for INVALID and for formats that share bytes.
SPYRE_API uint32_t spyre_format_bits(spyre_format format);
SPYRE_API uint32_t spyre_format_bytes(spyre_format format);

// Elements in a stick: 128 bytes / element size (64 for SEN169_FP16); 0 for INVALID.
SPYRE_API uint32_t spyre_format_elements_per_stick(spyre_format format);

// PyTorch's name without "torch."; "?" for a value outside the enumeration.
SPYRE_API const char *spyre_dtype_name(spyre_dtype dtype);

// The dtype of that name into *out_dtype, or SPYRE_NOT_FOUND.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_dtype_named(const char *name,
                                                          spyre_dtype *out_dtype);

SPYRE_API uint32_t spyre_dtype_bytes(spyre_dtype dtype);

// Format of the dtype in host memory, and the one it takes on the card by default.
SPYRE_API spyre_format spyre_dtype_host_format(spyre_dtype dtype);
SPYRE_API spyre_format spyre_dtype_card_format(spyre_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
