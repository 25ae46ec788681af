// SPDX-License-Identifier: Apache-2.0
//
// Arrays in files of NumPy, format version 1 to 3, C order, little endian. Format:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include <stdbool.h>
#include <stdint.h>

#include "spyre/dtype.h"

enum { NPY_MOST_RANK = 8, NPY_MESSAGE = 160 };

typedef struct {
    void *bytes;                // owned: free() it
    int64_t byte_count;
    spyre_dtype dtype;
    uint32_t rank;
    int64_t size[NPY_MOST_RANK];
} npy_array;

// Reads a file; false with a message, which does not name the file.
bool npy_read(const char *path, npy_array *out_array, char message[NPY_MESSAGE]);
bool npy_write(const char *path, const npy_array *array, char message[NPY_MESSAGE]);

#endif
