// SPDX-License-Identifier: Apache-2.0
//
// Other sizes of tensors: what a program of a bucket gets of the operands of a call, and what a
// call gets of its results.
#ifndef CORE_BUCKET_OPERANDS_H
#define CORE_BUCKET_OPERANDS_H

#include "core.h"

enum { FIT_MOST_DIMS = 3 };

// Of a tensor: itself; all of its storage; a contiguous copy.
typedef enum { FIT_ITSELF, FIT_WHOLE, FIT_COPY } fit_kind;

typedef struct {
    int64_t dim, size;
} fit_dim;

typedef struct {
    fit_kind kind;
    uint32_t count;                     // dims with another size, zeros behind what there is
    fit_dim dims[FIT_MOST_DIMS];
} fit;

// Of (kind, dim, size, dim, size, ..) of Python; false, maybe with an exception, for anything else.
bool fit_read(PyObject *tuple, fit *out);

// *out: the tensor that fits, a new one; null where the storage of `tensor` does.
bool fit_make(const fit *f, AtenTensorHandle tensor, AtenTensorHandle *out);

bool fit_register(PyObject *module);

#endif
