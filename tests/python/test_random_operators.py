# SPDX-License-Identifier: Apache-2.0
"""Operators of torch-spyre's table one by one, on random shapes, strides, dtypes and forms (plain,
in-place, out=), against the CPU. Numbers are multiples of 1/8 that every format here has."""

import random

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

SIZES = (0, 1, 2, 3, 63, 64, 65, 129)
HALF, FLOAT, LONG = torch.float16, torch.float32, torch.int64
TOLERANCE = {HALF: 2e-2, FLOAT: 1e-4}

UNARY = (torch.abs, torch.neg, torch.exp, torch.sqrt, torch.reciprocal, torch.tanh, torch.floor,
         torch.ceil, torch.sign, torch.sigmoid, torch.relu, torch.square, torch.sin, torch.cos,
         torch.logical_not, torch.isinf, F.silu, F.gelu, F.mish, F.softplus,
         lambda x: x.clamp(-1, 1), lambda x: x**3, lambda x: x.softmax(-1))  # fmt: skip
BINARY = (torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, torch.eq, torch.ne,
          torch.lt, torch.le, torch.gt, torch.ge)  # fmt: skip
REDUCTIONS = (torch.sum, torch.mean, torch.amax, torch.amin)
IN_PLACE = ("add_", "sub_", "mul_", "copy_")
SHAPES = (
    lambda x: torch.cat([x, x], -1),
    lambda x: torch.stack([x, x]),
    lambda x: F.pad(x, (1, 2), value=0.5),
    lambda x: x.repeat(*[1] * (x.dim() - 1), 2),
    lambda x: x.flip(0) if x.dim() else x,
    lambda x: x.transpose(0, -1).contiguous(),
    lambda x: x.reshape(-1),
    lambda x: x[..., ::2] + 1,
    lambda x: x.triu(1) if x.dim() > 1 else x.clone(),
)


class Trial:
    def __init__(self, seed, sizes=SIZES):
        self.sizes = sizes
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)

    def pick(self, items):
        return self.random.choice(items)

    def tensor(self, dtype, shape):
        """Multiples of 1/8, or integers; with strides that are not those of the shape, at times."""
        wide = self.random.random() < 0.4 and len(shape) > 0
        stored = [n * 2 for n in shape[-1:]] if wide else shape[-1:]
        x = torch.randint(-32, 33, (*shape[:-1], *stored), generator=self.generator)
        x = x if dtype is LONG else (x / 8).to(dtype)
        if wide:
            x = x[..., : shape[-1]] if self.random.random() < 0.5 else x[..., ::2]
        if self.random.random() < 0.3 and len(shape) > 1:
            x = x.transpose(0, -1).clone().transpose(0, -1)
        return x

    def shape(self, rank):
        return tuple(self.pick(self.sizes) for _ in range(rank))

    def broadcast(self, shape):
        return tuple(1 if self.random.random() < 0.25 else n for n in shape)[self.pick((0, 0, 1)) :]

    def call(self):
        """A function and its arguments; the function may write into the first of them."""
        kind = self.pick(("unary", "binary", "scalar", "reduction", "in place", "out", "matrix",
                          "shape", "where"))  # fmt: skip
        dtype, shape = self.pick((HALF, HALF, FLOAT, LONG)), self.shape(self.pick((0, 1, 2, 3)))
        if kind in ("unary", "reduction", "matrix") and dtype is LONG:
            dtype = HALF
        x = self.tensor(dtype, shape)
        y = self.tensor(dtype, self.broadcast(shape))
        if kind == "unary":
            return self.pick(UNARY), (x,)
        if kind == "binary":
            return self.pick(BINARY), (x, y)
        if kind == "scalar":
            op, number = self.pick(BINARY[:3] + BINARY[5:]), self.pick((0, 2, -3, 0.5))
            return (lambda x: op(x, number)), (x,)
        if kind == "in place":
            name = self.pick(IN_PLACE)
            return (lambda x, y: getattr(x, name)(y) * 1), (x, y)
        if kind == "out":
            op = self.pick(BINARY[:5])
            return (lambda x, y: op(x, y, out=torch.empty_like(x))), (x, y)
        if kind == "where":
            return (lambda x, y: torch.where(x > 0, x, y)), (x, y)
        if kind == "shape":
            return self.pick(SHAPES), (x if x.dim() else x[None],)
        return self.products(dtype) if kind == "matrix" else self.reduction(x)

    def reduction(self, x):
        op, keep = self.pick(REDUCTIONS), self.pick((False, True))
        if op in REDUCTIONS[2:] and x.numel() == 0:
            op = torch.sum
        dims = self.pick([None, *range(-x.dim(), 0)])
        if dims is None:
            return (lambda x: op(x)), (x,)
        return (lambda x: op(x, dim=dims, keepdim=keep)), (x,)

    def products(self, dtype):
        batch, (m, k, n) = self.pick(((), (2,))), self.shape(3)
        x, y = self.tensor(dtype, (*batch, m, k)) / 4, self.tensor(dtype, (*batch, k, n)) / 4
        return torch.matmul, (x, y)

    def view(self):
        """A function that takes a view of a view of a tensor: steps, parts, diagonals, turns."""
        steps = []
        for _ in range(self.pick((1, 2, 3))):
            start, step = self.pick((0, 1)), self.pick((1, 2, 3))
            kind, places = self.pick(("slice", "diagonal", "turn")), self.random.random()
            steps.append((kind, start, step, places))

        def taken(x):
            for kind, start, step, places in steps:
                dim = int(places * x.dim())
                if kind == "slice" and x.dim() and x.shape[dim] > start:
                    x = x[(*[slice(None)] * dim, slice(start, None, step))]
                elif kind == "diagonal" and x.dim() > 1:
                    x = x.diagonal(start, dim, dim - 1)
                elif kind == "turn" and x.dim() > 1:
                    x = x.transpose(dim, 0)
            return x

        return taken


def check_view(seed, compiled):
    """What reads a view reads its elements, and no operator of it falls back."""
    trial = Trial(seed, (1, 2, 3, 7, 11, 64, 65, 130))
    dtype, shape = trial.pick((HALF, HALF, FLOAT, LONG)), trial.shape(trial.pick((1, 2, 3)))
    if torch.Size(shape).numel() > 20_000:
        return
    view, x = trial.view(), trial.tensor(dtype, shape)

    def function(x):
        return view(x) + view(x), view(x).clone()

    for actual, expected in zip(
        (torch.compile(function) if compiled else function)(x.to("spyre")), function(x), strict=True
    ):
        assert torch.equal(actual.cpu(), expected), f"seed {seed}: {dtype} {shape} {expected.shape}"


def check(seed, compiled):
    trial = Trial(seed, SIZES[1:] if compiled else SIZES)
    function, arguments = trial.call()
    wide = [x.float() if x.dtype is HALF else x.clone() for x in arguments]
    expected = function(*wide)
    moved = [x.to("spyre") for x in arguments]
    actual = (torch.compile(function) if compiled else function)(*moved)
    what = f"seed {seed}: {[(x.dtype, tuple(x.shape), x.stride()) for x in arguments]}"
    assert actual.device.type == "spyre" and actual.shape == expected.shape, what
    actual = actual.cpu()
    if arguments[0].dtype is HALF:  # NaN reads back as an infinity
        expected = torch.where(expected.isnan() & actual.isinf(), actual, expected)
    tolerance = TOLERANCE.get(arguments[0].dtype, 0)
    torch.testing.assert_close(
        actual.double(), expected.double(), atol=tolerance, rtol=tolerance, equal_nan=True,
        msg=lambda text: f"{what}: {text}",
    )  # fmt: skip


@pytest.mark.host(
    "aten.bmm",
    "aten.constant_pad_nd",
    "aten.eq",
    "aten.flip",
    "aten.ge",
    "aten.gt",
    "aten.le",
    "aten.lt",
    "aten.ne",
    "aten.sign",
    "aten.softplus",
)
@pytest.mark.filterwarnings("ignore")
def test_eager():
    for seed in range(350):
        check(seed, compiled=False)


@pytest.mark.host("aten.gt")
@pytest.mark.filterwarnings("ignore")
def test_compiled():
    for seed in range(1000, 1030):
        torch._dynamo.reset()
        check(seed, compiled=True)


@pytest.mark.parametrize("trials", [40, pytest.param(1000, marks=pytest.mark.long)])
def test_views(trials):
    for seed in range(trials):
        torch._dynamo.reset()
        check_view(seed, compiled=seed % 10 == 0)
