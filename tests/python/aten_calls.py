# SPDX-License-Identifier: Apache-2.0
"""Calls of ATen operators with arguments made of their schemas, on the card beside the CPU."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable

import torch
from torch.utils import _pytree as pytree

# Not operators of tensors' values: memory, devices, autograd's bookkeeping, files; what another
# test has; and what asks for other devices or libraries.
_LEFT_OUT = (
    "__", "_adaptive", "_add_relu", "_addmm", "_aminmax", "_amp", "_assert", "_async", "_backward",
    "_batch_norm", "_cast", "_cat", "_cdist", "_choose_qparams", "_chunk_cat", "_coalesce",
    "_compute_linear", "_conj", "_convert", "_copy_from", "_cslt", "_ctc", "_cudnn", "_cufft",
    "_cummax_helper", "_cummin_helper", "_dimI", "_dimV", "_dim_arange", "_dirichlet", "_dyn",
    "_efficient", "_embedding", "_euclid", "_fake", "_fft", "_fill_mem", "_flash", "_foobar",
    "_functional", "_fused", "_fw_", "_grouped", "_has_", "_histogramdd", "_index_put_impl",
    "_indices", "_int_mm", "_is_", "_jagged", "_lazy", "_linalg", "_list", "_local_scalar",
    "_log_softmax", "_make_per", "_masked_scale", "_mixed", "_mkldnn", "_mps", "_native_multi",
    "_neg_view", "_nested", "_new_zeros", "_nnpack", "_nnz", "_pack", "_padded_dense", "_pdist",
    "_philox", "_pin", "_prelu", "_print", "_propagate", "_remove", "_reshape", "_resize",
    "_rowwise", "_safe", "_sample", "_saturate", "_scaled", "_segment", "_shape_as", "_slow",
    "_softmax", "_sparse", "_spdiags", "_spsolve", "_stack", "_standard_gamma", "_test", "_thnn",
    "_to_", "_transform", "_trilinear", "_triton", "_unique", "_unpack", "_unsafe", "_upsample",
    "_use", "_validate", "_values", "_version", "_weight", "_wrapped", "alias", "batch_norm_",
    "ccol", "col_", "copy_sparse", "crow", "cudnn", "data", "dequantize", "detach",
    "embedding_renorm", "fake_", "fbgemm", "from_file", "gru", "hspmm", "indices", "int_repr",
    "is_", "lift", "lstm", "miopen", "mkldnn", "mps_", "nested", "pin_memory", "q_", "quantize",
    "record_stream", "rename", "requires_grad", "resize", "retain_grad", "rnn", "row_", "set_",
    "sparse", "sspaddmm", "sym_", "to_mkldnn", "to_sparse", "unsafe_chunk", "values",
)  # fmt: skip


def overloads(select: Callable[[torch._C.FunctionSchema], bool]):
    """The operators of aten with a schema that `select` takes, in alphabetical order."""
    names = {n.removeprefix("aten::").split(".")[0] for n in torch._C._dispatch_get_all_op_names()
             if n.startswith("aten::")}  # fmt: skip
    for name in sorted(names):
        if name.startswith(_LEFT_OUT) or name.endswith("_backward"):
            continue
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet else ():
            op = getattr(packet, overload)
            if select(op._schema):
                yield op


def _tensor(r: random.Random, dtype: torch.dtype, shape: list[int]) -> torch.Tensor:
    count = 1
    for size in shape:
        count *= size
    if dtype.is_floating_point:
        values = [r.randint(-8, 8) / 4 for _ in range(count)]
    else:
        values = [r.randint(0, 1 if dtype == torch.bool else 3) for _ in range(count)]
    return torch.tensor(values, dtype=dtype).reshape(shape)


_SHAPES = [[5, 1], [5], [5, 5], [1, 5], [], [2, 3], [0], [3, 0], [2, 3, 4], [4, 4]]
_DTYPES = [torch.float32, torch.float16, torch.int32, torch.bool]


def argument(r: random.Random, kind: str, dtype: torch.dtype, shape: list[int]):
    """A value for an argument of a schema's type; raises KeyError for a type without one."""
    if kind.startswith("Optional["):
        return None if r.random() < 0.6 else argument(r, kind[9:-1], dtype, shape)
    if kind == "Tensor":
        other = shape if r.random() < 0.5 else r.choice(_SHAPES)
        kinds = dtype if r.random() < 0.7 else r.choice(_DTYPES)
        return _tensor(r, kinds, other)
    if kind.startswith("List["):
        return [argument(r, kind[5:-1], dtype, shape) for _ in range(r.randint(1, 2))]
    values = {
        "number": [2, 0.5, 0, -1],
        "int": [0, 1, -1, 2, 3],
        "SymInt": [0, 1, -1, 2, 3],
        "float": [0.5, 1.0, 0.0],
        "bool": [False, True],
        "str": ["mean", "none", "floor"],
        "ScalarType": [None],
    }
    return r.choice(values[kind])


def arguments(r: random.Random, op: torch._ops.OpOverload):
    """(args, kwargs) of CPU tensors for a call, right or wrong; None where a type has no value."""
    dtype, shape = r.choice(_DTYPES), r.choice(_SHAPES)
    args, kwargs = [], {}
    for a in op._schema.arguments:
        kind = str(a.type)
        if kind in ("Optional[Generator]", "Generator"):
            continue
        if a.has_default_value() and r.random() < 0.7:
            if not a.kwarg_only:
                args.append(a.default_value)
            continue
        try:
            value = argument(r, kind, dtype, shape)
        except KeyError:
            if a.has_default_value() and a.kwarg_only:
                continue
            return None
        if a.kwarg_only:
            kwargs[a.name] = value
        else:
            args.append(value)
    return args, kwargs


def on(device: str, values):
    return pytree.tree_map(lambda v: v.to(device) if isinstance(v, torch.Tensor) else v, values)


def outcome(op, args, kwargs):
    """("raises", class, text) or ("gives", results, arguments behind the call), on the CPU."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = op(*args, **kwargs)
    except Exception as error:
        return "raises", type(error), str(error)
    return "gives", on("cpu", results), on("cpu", (args, kwargs))
