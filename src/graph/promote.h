// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's type promotion (torch.result_type), for ops whose result dtype does not tell in which
// dtype they compute. Rule: PyTorch documentation, "Tensor Attributes", type promotion.
#ifndef GRAPH_PROMOTE_H
#define GRAPH_PROMOTE_H

#include "graph/rewrite/rewrite.h"

// The common dtype of arguments `first` and `second`, tensors or numbers: tensors with dims outrank
// those of rank 0, which outrank numbers, unless the lower one is of a higher category.
SPYRE_MUST_CHECK spyre_status promote_args(const rewriter *r, uint32_t first, uint32_t second,
                                           spyre_dtype *out_dtype);
// That of all tensors and numbers among the arguments, those in lists left out.
spyre_dtype promote_all(const rewriter *r);

#endif
