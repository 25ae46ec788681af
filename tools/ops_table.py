#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks torch-spyre's table of operations on the card, row by row.

    tools/ops_table.py [GROUP or OPERATION ...]

A row is an operation of torch-spyre/torch-spyre, docs/source/user_guide/supported_operations.md,
as of e1abccf, with its marks: E eager, C compiled, and where it runs. Each marked form is run in
float16 on the card and compared with the CPU; an operation of the card must give no
FallbackWarning. An operation marked CPU may run on either; the table says where it did. Exit status
1 when a row fails.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre

HALF = torch.float16


class Row(NamedTuple):
    name: str
    forms: str  # E, C
    where: str  # card, CPU; "part": the card after a step of the host
    function: Callable
    arguments: Callable[[], tuple]
    random: bool = False  # only shape and range are compared


def _numbers(*shape, scale=1.0):
    return (torch.randint(-64, 65, shape) / 32 * scale).to(HALF)


def _one():
    return (_numbers(3, 70),)


def _positive():
    return (_numbers(3, 70).abs() + 0.25,)


def _two():
    return _numbers(3, 70), _numbers(3, 70)


def _bools():
    return torch.rand(3, 70) > 0.5, torch.rand(3, 70) > 0.5


def _integers():
    return torch.randint(0, 50, (3, 70)), torch.randint(0, 50, (3, 70))


def _distinct():
    return (torch.stack([torch.randperm(70) for _ in range(3)]).to(HALF),)


def _matrices(batch=()):
    return lambda: (_numbers(*batch, 5, 64, scale=0.25), _numbers(*batch, 64, 70, scale=0.25))


def _heads():
    return tuple(_numbers(2, 4, 9, 32) for _ in range(3))


def _fp8():
    x, y = _numbers(16, 64), _numbers(64, 32)
    one = torch.ones((), dtype=torch.float32)
    return x.to(torch.float8_e4m3fn), y.to(torch.float8_e4m3fn), one


def _scaled_mm(x, y, one):
    return torch._scaled_mm(x, y, one, one, out_dtype=HALF)


def _row(name, forms, function, arguments=_one, where="card", random=False):
    return Row(name, forms, where, function, arguments, random)


def _fresh(make):
    """A creation on the device of the argument."""
    return lambda x: make(x.device)


def _in_place(method):
    return lambda x: method(x.clone())


GROUPS = {
    "Matrix": [
        _row("mm", "EC", torch.mm, _matrices()),
        _row("matmul", "C", torch.matmul, _matrices((2, 3))),
        _row("addmm", "EC", lambda a, b: torch.addmm(b[:5], a, b, beta=0.5), _matrices()),
        _row("bmm", "EC", torch.bmm, _matrices((3,))),
        _row("_scaled_mm", "C", _scaled_mm, _fp8),
        _row("linear", "EC", lambda a, b: F.linear(a, b.t(), b[0]), _matrices()),
        _row("conv2d", "EC", lambda x, w: F.conv2d(x, w, padding=1),
             lambda: (_numbers(1, 3, 8, 8), _numbers(4, 3, 3, 3, scale=0.25)), "part"),
    ],
    "Activation and norm": [
        _row("softmax", "EC", lambda x: F.softmax(x, -1)),
        _row("layer_norm", "EC", lambda x, y: F.layer_norm(x, (70,), y[0], y[1]), _two),
        _row("rms_norm", "EC", lambda x, y: F.rms_norm(x, (70,), y[0]), _two),
        _row("silu", "EC", F.silu),
        _row("relu", "EC", F.relu),
        _row("sigmoid", "EC", torch.sigmoid),
        _row("softplus", "EC", lambda x: F.softplus(x, 2.0, 10.0)),
        _row("dropout", "EC", lambda x: F.dropout(x, 0.5, training=False)),
        _row("scaled_dot_product_attention", "EC", F.scaled_dot_product_attention, _heads),
        _row("gelu", "C", F.gelu),
    ],
    "Unary": [
        _row("abs", "EC", torch.abs),
        _row("neg", "EC", torch.neg),
        _row("exp", "EC", torch.exp),
        _row("log", "EC", torch.log, _positive),
        _row("sqrt", "EC", torch.sqrt, _positive),
        _row("rsqrt", "EC", torch.rsqrt, _positive),
        _row("reciprocal", "EC", torch.reciprocal, _positive),
        _row("tanh", "EC", torch.tanh),
        _row("floor", "EC", torch.floor),
        _row("ceil", "EC", torch.ceil),
        _row("sign", "EC", torch.sign),
        _row("logical_not", "EC", torch.logical_not),
        _row("bitwise_not", "EC", lambda x, y: torch.bitwise_not(x), _bools),
        _row("clamp", "EC", lambda x: x.clamp(-0.5, 0.75)),
        _row("pow", "EC", lambda x: x**2),
        _row("mish", "EC", F.mish),
    ],
    "Binary": [
        _row("add", "EC", lambda x, y: torch.add(x, y, alpha=2), _two),
        _row("sub", "EC", lambda x, y: torch.sub(x, y, alpha=2), _two),
        _row("mul", "EC", torch.mul, _two),
        _row("div", "EC", lambda x, y: x / (y.abs() + 1), _two),
        _row("maximum", "EC", torch.maximum, _two),
        _row("minimum", "EC", torch.minimum, _two),
        _row("bitwise_and", "EC", torch.bitwise_and, _bools),
        _row("where", "EC", lambda x, y: torch.where(x > y, x, y), _two),
    ],
    "Comparison": [
        _row(name, "EC", getattr(torch, name), _two)
        for name in ("eq", "ne", "gt", "lt", "ge", "le")
    ],
    "Reduction": [
        _row("sum", "EC", lambda x: x.sum(-1)),
        _row("mean", "EC", lambda x: x.mean(0, keepdim=True)),
        _row("max", "EC", lambda x: x.max(-1).values),
        _row("min", "EC", lambda x: x.min()),
        _row("vector_norm", "EC", lambda x: torch.linalg.vector_norm(x, dim=-1) / 8),
        _row("amax", "C", lambda x: x.amax((0, 1))),
        _row("amin", "C", lambda x: x.amin(-1)),
        _row("topk", "C", lambda x: x.topk(4).values, _distinct),
    ],
    "View and shape": [
        _row("reshape", "EC", lambda x: x.reshape(7, 30)),
        _row("transpose", "EC", lambda x: x.transpose(0, 1) + 1),
        _row("clone", "EC", torch.clone),
        _row("contiguous", "EC", lambda x: x.t().contiguous()),
        _row("flatten", "EC", torch.flatten),
        _row("split", "EC", lambda x: x.split(33, 1)[1] + 1),
        _row("squeeze", "EC", lambda x: x[:1].squeeze(0) + 1),
        _row("unsqueeze", "EC", lambda x: x.unsqueeze(1) + 1),
        _row("expand", "EC", lambda x: x[:1].expand(5, 70).clone()),
        _row("narrow, select", "C", lambda x: x.narrow(1, 5, 60).select(0, 1) + 1),
        _row("t", "C", lambda x: x.t() + 1),
        _row("permute", "C", lambda x: x.unsqueeze(0).permute(2, 0, 1).contiguous()),
        _row("cat", "C", lambda x: torch.cat([x, x[:, :7]], 1)),
        _row("repeat", "C", lambda x: x.repeat(2, 3)),
        _row("unbind", "C", lambda x: x.unbind(0)[1] + 1),
        _row("unfold", "C", lambda x: x.unfold(0, 2, 1) + 1),
        _row("stack", "E", lambda x: torch.stack([x, x], 1)),
    ],
    "Creation": [
        _row("ones", "EC", _fresh(lambda d: torch.ones(3, 70, dtype=HALF, device=d))),
        _row("new_ones", "EC", lambda x: x.new_ones(2, 5)),
        _row("zeros", "EC", _fresh(lambda d: torch.zeros(3, 70, dtype=HALF, device=d))),
        _row("empty_like", "EC", lambda x: torch.empty_like(x), random=True),
        _row("full", "EC", _fresh(lambda d: torch.full((3, 70), 2.5, dtype=HALF, device=d))),
        _row("pad", "C", lambda x: F.pad(x, (1, 2, -1, 0), value=3.0)),
    ],
    "In-place": [
        _row("fill_", "C", _in_place(lambda x: x.fill_(2.0))),
        _row("normal_", "EC", _in_place(lambda x: x.normal_()), where="CPU", random=True),
        _row("uniform_", "E", _in_place(lambda x: x.uniform_()), where="CPU", random=True),
        _row("random_", "E", _in_place(lambda x: x.random_(0, 9)), where="CPU", random=True),
        _row("is_nonzero", "C", lambda x: torch.is_nonzero(x[0, 0] + 3)),
    ],
    "Utility": [_row("item", "EC", lambda x: (x[1, 2] + 1).item())],
    "CPU fallback": [
        _row("embedding", "EC", lambda x: F.embedding((x[0] > 0).long(), x), where="CPU"),
        _row("arange", "EC", _fresh(lambda d: torch.arange(65, device=d)), where="CPU"),
        _row("sin", "EC", torch.sin, where="CPU"),
        _row("cos", "EC", torch.cos, where="CPU"),
        _row("tril", "EC", torch.tril, where="CPU"),
        _row("triu", "EC", lambda x: x.triu(1), where="CPU"),
        _row("isin", "EC", torch.isin, _integers, "CPU"),
        _row("bitwise_xor", "EC", torch.bitwise_xor, _integers, "CPU"),
        _row("bitwise_or", "EC", torch.bitwise_or, _integers, "CPU"),
        _row("argmax", "EC", lambda x: x.argmax(-1), _distinct, "CPU"),
        _row("argmin", "EC", lambda x: x.argmin(0), _distinct, "CPU"),
        _row("cumsum", "EC", lambda x: x.cumsum(-1), where="CPU"),
        _row("index_copy", "E", lambda x: x.index_copy(0, (x[:2, 0] < 9).long().cumsum(0), x[:2]),
             where="CPU"),
    ],
}  # fmt: skip


def _difference(actual, expected, random: bool) -> str:
    """What is wrong with a result, or ""."""
    if not isinstance(expected, torch.Tensor):
        return "" if abs(actual - expected) <= 0.01 else f"{actual} instead of {expected}"
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return f"{actual.dtype} {list(actual.shape)}"
    if actual.device.type != "spyre":
        return f"a result on {actual.device}"
    if random or torch.allclose(actual.cpu().double(), expected.double(), 0.02, 0.02):
        return ""
    return "values differ"


def check(row: Row, form: str) -> tuple[str, str]:
    """Where one form of a row ran, and what is wrong with it."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch_spyre.reset_fallback_report()
    arguments = row.arguments()
    function = row.function if form == "E" else torch.compile(row.function)
    with torch_spyre.fallback("warn"), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            actual = function(*[a.to("spyre") for a in arguments])
            fault = _difference(actual, row.function(*arguments), row.random)
        except Exception as error:  # the row fails, the table goes on
            fault = f"{type(error).__name__}: {error}".splitlines()[0][:100]
    fell = [w for w in seen if issubclass(w.category, torch_spyre.FallbackWarning)]
    place = "CPU" if fell else "card"
    if not fault and fell and row.where == "card":
        fault = str(fell[0].message)[:100]
    return place, fault


def main(wanted: list[str]) -> int:
    failed = count = 0
    for group, rows in GROUPS.items():
        for row in rows:
            if wanted and group not in wanted and row.name not in wanted:
                continue
            results = [(form, *check(row, form)) for form in row.forms]
            faults = [f"{form}: {fault}" for form, _place, fault in results if fault]
            places = ", ".join(f"{form} {place}" for form, place, _fault in results)
            verdict = "FAIL " + "; ".join(faults) if faults else "ok"
            print(f"{group:<20} {row.name:<29} {row.where:<5} {places:<15} {verdict}", flush=True)
            count += 1
            failed += bool(faults)
    print(f"{count} rows, {failed} FAIL", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
