# SPDX-License-Identifier: Apache-2.0
"""Random programs that write through views: the same numbers, sizes, strides, shared storages and
gradients as on the CPU, in eager mode and compiled. All numbers are small integers, which every
dtype has."""

import random
import warnings

import pytest
import torch

DTYPES = (torch.float16, torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.bool)
SIZES = (1, 2, 3, 4, 5, 8, 16, 33, 64, 65, 70, 128)


class Program:
    """Lines of a function of inputs a0, a1, .., written while the host runs them: each takes the
    tensors so far, and makes one more or writes one."""

    def __init__(self, seed: int, dtypes=DTYPES):
        self.seed, self.random = seed, random.Random(seed)
        pick = self.random
        self.forms = []
        for _ in range(pick.randint(1, 3)):
            rank = pick.randint(1, 3)
            sizes = SIZES if rank < 3 else SIZES[:9]
            dtype = pick.choice(dtypes[:4] if pick.random() < 0.8 else dtypes)
            self.forms.append(([pick.choice(sizes) for _ in range(rank)], dtype))
        names = [f"a{index}" for index in range(len(self.forms))]
        self.tensors = dict(zip(names, self.inputs(), strict=True))
        self.lines, self.made = [], []
        for _ in range(pick.randint(2, 9)):
            self._add()
        self.source = "\n    ".join(
            [f"def program({', '.join(names)}):", *self.lines, f"return [{', '.join(self.made)}]"]
        )

    def inputs(self):
        generator = torch.Generator().manual_seed(self.seed)
        integers = [torch.randint(-8, 9, form, generator=generator) for form, _ in self.forms]
        pairs = zip(integers, self.forms, strict=True)
        return [x > 0 if dtype == torch.bool else x.to(dtype) for x, (_, dtype) in pairs]

    def function(self):
        names = {"torch": torch}
        exec(self.source, names)
        return names["program"]

    def _add(self):
        """One line that PyTorch takes."""
        for _ in range(40):
            name = self.random.choice(list(self.tensors))
            line = self.random.choice(LINES)(self, name, self.tensors[name])
            if line is None or self.tensors[name].numel() == 0:
                continue
            before = {known: x.clone() for known, x in self.tensors.items()}
            new = f"t{len(self.lines)}"
            try:
                exec(line.replace("new", new), {"torch": torch}, names := dict(self.tensors))
            except (RuntimeError, IndexError):
                for known, x in self.tensors.items():  # a line that fails may have begun to write
                    if not torch.equal(x, before[known]):
                        x.copy_(before[known])
                continue
            self.lines.append(line.replace("new", new))
            if new in names:
                self.tensors[new] = names[new]
                self.made.append(new)
            return

    def dim(self, x):
        dim = self.random.randrange(x.dim()) if x.dim() else 0
        return dim, x.shape[dim] if x.dim() else 1

    def span(self, size):
        begin = self.random.randint(0, size - 1)
        return begin, self.random.randint(begin + 1, size)

    def operand(self, x):
        """A tensor that broadcasts to x, or a number."""
        fits = [
            name
            for name, y in self.tensors.items()
            if y.dim() <= x.dim()
            and all(s in (1, w) for s, w in zip(y.shape[::-1], x.shape[::-1], strict=False))
        ]
        number = self.random.randint(-3, 3)
        return self.random.choice(fits) if fits and self.random.random() < 0.7 else number


def _limited(x):
    return "" if x.dtype == torch.bool else ".clamp(-8, 8)"


def _narrow(p, name, x):
    dim, size = p.dim(x)
    begin, end = p.span(size)
    return f"new = {name}.narrow({dim}, {begin}, {end - begin})"


def _steps(p, name, x):
    dim, size = p.dim(x)
    return f"new = {name}[{':, ' * dim}{p.random.randrange(size)}::{p.random.randint(1, 3)}]"


def _turned(p, name, x):
    return f"new = {name}.transpose({p.dim(x)[0]}, {p.dim(x)[0]})"


def _viewed(p, name, x):
    dim, size = p.dim(x)
    views = (
        f"select({dim}, {p.random.randrange(size)})", f"diagonal({p.random.randint(-1, 1)})",
        f"unsqueeze({p.random.randint(0, x.dim())})", "view(-1)", "detach()",
        f"unflatten({dim}, (2, {size // 2}))",
    )  # fmt: skip
    return f"new = {name}.{p.random.choice(views)}"


def _added(p, name, x):
    if x.dtype == torch.bool:
        return f"{name}.logical_xor_({name})"
    return f"{name}.{p.random.choice(('add_', 'sub_'))}({p.operand(x)}).clamp_(-8, 8)"


def _copied(p, name, x):
    other = p.operand(x)
    return f"{name}.copy_({other})" if isinstance(other, str) else f"{name}.fill_({other})"


def _masked(p, name, x):
    mask = name if x.dtype == torch.bool else f"{name} > 0"
    number = p.random.randint(0, 1)
    return p.random.choice((f"{name}.masked_fill_({mask}, {number})", f"{name}[{mask}] = {number}"))


def _set(p, name, x):
    dim, size = p.dim(x)
    begin, end = p.span(size)
    part = x.narrow(dim, begin, end - begin) if x.dim() else x
    return f"{name}[{':, ' * dim}{begin}:{end}] = {p.operand(part)}"


def _indexed(p, name, x):
    dim, size = p.dim(x)
    rows = p.random.sample(range(size), p.random.randint(1, min(size, 3)))
    index = f"torch.tensor({rows}, device={name}.device)"
    return p.random.choice((
        f"{name}.index_fill_({dim}, {index}, {p.random.randint(0, 1)})",
        f"{name}.index_copy_({dim}, {index}, {name}.index_select({dim}, {index}.flip(0)))",
        f"new = {name}.index_select({dim}, {index})",
    ))  # fmt: skip


def _scattered(p, name, x):
    dim, size = p.dim(x)
    sizes = [min(n, 2) if d == dim else n for d, n in enumerate(x.shape)]
    index = f"torch.full({sizes}, {p.random.randrange(size)}, device={name}.device)"
    if p.random.random() < 0.5:
        return f"new = {name}.gather({dim}, {index})"
    return f"{name}.scatter_({dim}, {index}, {p.random.randint(0, 2)})"


def _computed(p, name, x):
    if x.dtype == torch.bool:
        return f"new = ~{name}"
    binary, unary = p.random.choice(("add", "sub", "mul")), p.random.choice(("neg", "abs", "relu"))
    return p.random.choice((
        f"new = torch.{binary}({name}, {p.operand(x)}).clamp(-8, 8)",
        f"new = torch.{unary}({name})",
        f"new = torch.where({name} != 0, {name}, {p.operand(x)}){_limited(x)}",
        f"new = torch.abs({name}, out=torch.empty_like({name}))",
        f"new = {name}.amax({p.dim(x)[0]})",
    ))  # fmt: skip


def _moved(p, name, x):
    dim, _ = p.dim(x)
    moves = (
        f"{name}.flip({dim})", f"{name}.roll({p.random.randint(-2, 2)}, {dim})", f"{name}.clone()",
        f"torch.cat([{name}, {name}], {dim})", f"{name}.contiguous()", f"{name}.reshape(-1)",
        f"{name}.repeat_interleave(2, {dim})",
    )  # fmt: skip
    return f"new = {p.random.choice(moves)}"


# What PyTorch computes from what it has just written: on the host, in its own order.
pytestmark = pytest.mark.host("aten.add", "aten.sub")

LINES = (
    _narrow, _steps, _turned, _viewed, _viewed, _added, _added, _copied, _masked, _set, _set,
    _indexed, _scattered, _computed, _computed, _moved,
)  # fmt: skip


def storages(tensors):
    """A number a tensor, the same for those that share their memory."""
    numbers = {}
    keys = [x.untyped_storage().data_ptr() if x.numel() else id(x) for x in tensors]
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def strides(x):
    return [stride for stride, size in zip(x.stride(), x.shape, strict=True) if size > 1]


def check(seed, compiled):
    program = Program(seed)
    function, host = program.function(), program.inputs()
    expected = [*host, *function(*host)]
    card = [x.to("spyre") for x in program.inputs()]
    if compiled:
        torch._dynamo.reset()
        function = torch.compile(function, dynamic=False)
    found = [*card, *function(*card)]
    for index, (x, y) in enumerate(zip(found, expected, strict=True)):
        place = f"seed {seed}, tensor {index} of\n{program.source}"
        assert (x.shape, x.dtype) == (y.shape, y.dtype), place
        assert compiled or strides(x) == strides(y), place
        assert torch.equal(x.cpu(), y), place
    assert storages(found) == storages(expected), f"seed {seed}\n{program.source}"


def gradients(program, device, compiled):
    """Of the inputs, by a sum that weighs each tensor; and that sum."""
    function = program.function()
    leaves = [x.to(device).requires_grad_() for x in program.inputs()]

    def weighed(*leaves):
        inputs = [leaf * 1 for leaf in leaves]
        made = [*inputs, *function(*inputs)]
        return sum((x.sum() * weight for weight, x in enumerate(made, 1)), torch.zeros(()))

    call = torch.compile(weighed, dynamic=False) if compiled else weighed
    result = call(*leaves)
    result.backward()
    return [leaf.grad for leaf in leaves], result.detach()


def check_gradients(seed, compiled):
    program = Program(seed, (torch.float32,))
    try:
        expected, whole = gradients(program, "cpu", compiled=False)
    except RuntimeError:  # written over what the gradient needs
        return False
    if compiled:
        torch._dynamo.reset()
    found, result = gradients(program, "spyre", compiled)
    for x, y in zip([*found, result], [*expected, whole], strict=True):
        assert (x is None) == (y is None), program.source
        if x is not None:
            close = torch.allclose(x.cpu(), y, rtol=1e-3, atol=1e-3)
            assert close, f"seed {seed}\n{program.source}"
    return True


@pytest.fixture(autouse=True)
def only_what_matters():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, of deprecated spellings
        yield


@pytest.mark.parametrize("block", range(4))
def test_eager(block):
    for seed in range(50 * block, 50 * block + 50):
        check(seed, compiled=False)


@pytest.mark.parametrize("block", range(2))
def test_compiled(block):
    for seed in range(15 * block, 15 * block + 15):
        check(seed, compiled=True)


@pytest.mark.parametrize("compiled, count", ((False, 100), (True, 20)))
def test_gradients(compiled, count):
    assert sum(check_gradients(seed, compiled) for seed in range(count)) > count / 3


@pytest.mark.long
@pytest.mark.parametrize("compiled, count", ((False, 5000), (True, 600)))
def test_more(compiled, count):
    for seed in range(count):
        check(seed, compiled)
        check_gradients(seed, compiled)


def test_a_filled_view_that_is_turned_shares_its_memory():
    """PyTorch's decomposition copies to strides."""

    def function(x):
        rolled = x.roll(1, 0)
        turned = rolled.transpose(1, 0)
        turned.index_fill_(0, torch.tensor([0], device=x.device), 1)
        return rolled, turned

    x = torch.randn(4, 70).half().to("spyre")
    rolled, turned = torch.compile(function, dynamic=False)(x)
    for found, expected in zip((rolled, turned), function(x.cpu()), strict=True):
        assert torch.equal(found.cpu(), expected)
    rolled.zero_()
    assert turned.abs().max() == 0
