# SPDX-License-Identifier: Apache-2.0
"""What operators return, by rules that spare the import of Dynamo."""

import itertools

import pytest
import torch
from torch_spyre.eager import result_metadata

aten = torch.ops.aten
RULES = result_metadata._RULES
FLOATS = (torch.float16, torch.float32)


def tensors(*shapes, dtype=torch.float16):
    return [torch.ones(shape, dtype=dtype) for shape in shapes]


def operands():
    """Pairs that broadcast or not, are contiguous or not, and have one dtype or two."""
    shapes = [(), (4,), (3, 4), (1, 4), (3, 1), (2, 3, 4), (2, 1, 1), (0, 4), (1, 1)]
    for left, right in itertools.product(shapes, shapes):
        yield tensors(left, right)
    a, b = tensors((4, 3), (3, 4))
    yield from ([a.t(), b], [b, a.t()], [a.t(), a.t()], [b[:, ::2], b[:, 1::2]], [b, b.int()])
    yield [b, b.float()]
    yield [b.double(), b.double()]
    yield [b.expand(2, 3, 4), b]
    (c,) = tensors((3, 6, 8))
    yield from ([c[:, :3], c[:, 3:]], [c[0, :, 3], b[0, :1]], [c[..., 5], c[..., 0]])
    for size, steps in (((4, 1, 3), (6, 2, 2)), ((4, 2, 3), (10, 1, 1)), ((1, 3), (1, 1))):
        tie = c.as_strided(size, steps)  # of equal strides the smaller dim is inside
        yield from ([tie, tie], [tie, tie.contiguous()], [tie.contiguous(), tie[:1]])
    yield from ([c[:, :1, :3], c[:, 1:, :3]], [c[1:, 2:3], c[0]], [c[:, ::2, 1:2], c[0, :3, 2:3]])


def arguments(op):
    """Argument lists of an operator, in the order of its schema."""
    name = str(op).removeprefix("aten.")
    numbers = (2, 0.5, True, 1j)
    matrices = [tensors((4, 3), (3, 5)), tensors((4, 3), (4, 3)), [tensors((3, 4))[0].t()] * 2]
    if name in ("mm.default", "bmm.default"):
        yield from (
            *matrices,
            [c[:, :2] for c in tensors((4, 3), (2, 5))],
            tensors((2, 4, 3), (2, 3, 5)),
            tensors((2, 4, 3), (1, 3, 5)),
        )
    elif name == "addmm.default":
        for bias in tensors((5,), (4, 5), (4,), (1, 4, 5), ()):
            yield [bias, *matrices[0], 1, 1]
    elif "softmax" in name:
        for (x,), dim, widen in itertools.product(
            (tensors((3, 4)), tensors(()), [matrices[2][0]], [tensors((3, 8))[0][:, 2:6]]),
            (-1, 0, 1, 2),
            (False, True),
        ):
            yield [x, dim, widen]
    elif name in ("layer_norm.default", "native_layer_norm.default"):
        more = [True] if name == "layer_norm.default" else []  # cudnn_enable
        for dtype in FLOATS:
            x, w = tensors((2, 3, 4), (4,), dtype=dtype)
            for sizes, weight, bias in (([4], w, None), ([4], w, w), ([3], w, w)):
                yield [x, sizes, weight, bias, 1e-5, *more]
        yield [x, [3, 4], None, None, 1e-5, *more]
        yield [tensors((2, 3, 8))[0][..., 3:7], [4], *tensors((4,), (4,)), 1e-5, *more]
    elif name in ("sum.default", "mean.default"):
        yield from (
            [*tensors((3, 4)), None],
            [*tensors((3, 4)), torch.float32],
            [*tensors(()), None],
        )
    elif name.split(".")[0] in ("sum", "mean", "amax", "amin"):
        dtype = () if name.startswith("am") else (None,)
        for x, dims, keep in itertools.product(
            [*tensors((2, 3, 4), ()), tensors((4, 3, 8))[0][1:3, :, 2:6]],
            ([], [-1], [0, 2], [1, 1], [5]),
            (False, True),
        ):
            yield [x, dims, keep, *dtype]
    elif name == "where.self":
        for x, y in operands():
            yield from ([x > 0, x, y], [x, x, y])
    elif name.startswith("clamp"):
        yield from ([tensors((3, 4))[0], low, high] for low in (None, 0) for high in (None, 1.0))
    elif len(op._schema.arguments) == 1 or name.startswith("gelu"):
        rest = ["none"] if name.startswith("gelu") else []
        yield from ([x, *rest] for x, _y in operands())
    else:
        alpha = [1] * (len(op._schema.arguments) - 2)
        if name.endswith("Scalar"):
            yield from ([x, n, *alpha] for (x, _y) in operands() for n in numbers)
        else:
            yield from ([x, y, *alpha] for x, y in operands())
            yield from ([tensors((3, 4))[0], n, *alpha] for n in numbers)


def of_rule(op, values):
    try:
        result = RULES[op](*values)
    except result_metadata._NotPlain:
        return None
    return [(r.shape, r.stride(), r.dtype) for r in as_tuple(result)]


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


# What PyTorch's own refuses (batches of test_fp8.py, groups of test_grouped_products.py, cells
# without biases of test_decomposed.py),
# does not have (test_parts.py), gives in another memory format than its CPU kernel
# (test_memory_format.py) or in other sizes (test_bags_and_grids.py).
BEYOND_PYTORCH = {
    aten.multi_margin_loss_backward.default,
    aten.multilabel_margin_loss_backward.default,
    aten.multilabel_margin_loss_forward.default,
    aten._weight_norm_interface.default,
    aten._weight_norm_interface_backward.default,
    aten._embedding_bag.default,
    aten._embedding_bag_forward_only.default,
    aten._thnn_fused_lstm_cell.default,
    aten._thnn_fused_gru_cell.default,
    aten.convolution.default,
    aten._scaled_mm.default,
    aten._grouped_mm.default,
    aten._scaled_dot_product_fused_attention_overrideable_backward.default,
    aten.scaled_dot_product_attention.default,
}


@pytest.mark.parametrize("queries, key_heads", [(5, 4), (3, 2)])
def test_attention_has_the_strides_of_the_cpu(queries, key_heads):
    shapes = ((2, queries, 4, 64), (2, 7, key_heads, 64), (2, 7, key_heads, 64))
    operands = [torch.randn(shape).half().transpose(1, 2) for shape in shapes]
    results = [
        torch.nn.functional.scaled_dot_product_attention(
            *(x.to(device) for x in operands), enable_gqa=key_heads != 4
        )
        for device in ("cpu", "spyre")
    ]
    assert results[0].stride() == results[1].stride()
    torch.testing.assert_close(results[1].cpu(), results[0], rtol=0.02, atol=0.01)
    assert results[1].transpose(1, 2).view(2, queries, 256).is_contiguous()


@pytest.mark.parametrize("op", [op for op in RULES if op not in BEYOND_PYTORCH], ids=str)
def test_rules_agree_with_pytorch(op):
    taken = 0
    for values in arguments(op):
        mine = of_rule(op, values)
        if mine is None:
            continue
        taken += 1
        theirs = as_tuple(result_metadata._by_pytorch(op, values))
        assert mine == [(r.shape, r.stride(), r.dtype) for r in theirs], values
    assert taken > 0


def test_wrong_arguments_are_pytorchs_to_refuse():
    with pytest.raises(RuntimeError):
        result_metadata.results_of(aten.mm.default, tensors((3, 4), (3, 4)))
    with pytest.raises((RuntimeError, IndexError)):
        result_metadata.results_of(aten.sum.dim_IntList, [*tensors((3, 4)), [2], False, None])


def test_common_operators_import_neither_dynamo_nor_sympy(run_python):
    run_python(
        "import sys, torch\n"
        "x = torch.ones(4, 64, dtype=torch.float16, device='spyre')\n"
        "w = torch.ones(64, 64, dtype=torch.float16, device='spyre')\n"
        "y = ((x + x) * 2 @ w).relu().softmax(-1).sum(-1).cpu()\n"
        "torch.nn.functional.layer_norm(x, [64]).clone().copy_(x)\n"
        "assert not {'torch._dynamo', 'sympy'} & set(sys.modules)\n"
    )
