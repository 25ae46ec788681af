// SPDX-License-Identifier: Apache-2.0
//
// Sparse tensors (COO) of the device: PyTorch's own kernels make them of indices and values that
// lie there. They are held, copied and made dense; the host computes anything else on copies
// (eager/sparse.py).
#include <ATen/ATen.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_native.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/copy_sparse_to_sparse_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/indices_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/values_native.h>
#include <torch/library.h>

namespace {

at::Tensor to_dense(const at::Tensor &sparse, std::optional<at::ScalarType> dtype,
                    std::optional<bool>)
{
    at::Tensor values = sparse._values();
    at::Tensor dense = at::zeros(sparse.sizes(), values.options());
    c10::List<std::optional<at::Tensor>> places;
    for (const at::Tensor &row : sparse._indices().unbind(0)) places.push_back(row);
    if (places.empty()) dense.copy_(values.sum({0}, false, values.scalar_type()));
    else dense.index_put_(places, values, !sparse.is_coalesced());
    return dtype ? dense.to(*dtype) : dense;
}

at::Tensor &set_coalesced(at::Tensor &sparse, bool is_coalesced)
{
    static_cast<at::SparseTensorImpl *>(sparse.unsafeGetTensorImpl())->set_coalesced(is_coalesced);
    return sparse;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, library)
{
    library.impl("_sparse_coo_tensor_with_dims_and_tensors",
                 at::native::new_with_dims_and_tensor_sparse_symint);
    library.impl("_sparse_coo_tensor_with_dims", at::native::new_with_dims_sparse);
    library.impl("_indices", at::native::_indices_sparse);
    library.impl("_values", at::native::_values_sparse);
    library.impl("indices", at::native::indices_sparse);
    library.impl("values", at::native::values_sparse);
    library.impl("_nnz", at::native::_nnz_sparse);
    library.impl("is_coalesced", at::native::is_coalesced_sparse);
    library.impl("_coalesced_", set_coalesced);
    library.impl("sparse_dim", at::native::sparse_dim_sparse);
    library.impl("dense_dim", at::native::dense_dim_sparse);
    library.impl("clone", at::native::clone_sparse);
    library.impl("copy_", at::native::copy_sparse_wrapper_);
    library.impl("copy_sparse_to_sparse_", at::native::copy_sparse_);
    library.impl("_to_dense", to_dense);
}
