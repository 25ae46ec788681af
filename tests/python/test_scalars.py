# SPDX-License-Identifier: Apache-2.0
"""Numbers among the arguments of an operator are parameters of its program: one program serves all
values, and each gives the bits that a program of that value alone gives."""

import threading

import pytest
import torch
import torch_spyre
from torch_spyre import _C
from torch_spyre.compile import call_compiler, node_arguments
from torch_spyre.eager import operator_program, programs_by_number

aten = torch.ops.aten
FACTORS = [0.3 + 0.037 * i for i in range(50)]  # none that a rule keeps in the program

# By operator: its arguments, from the dtype of its tensors and a number.
X = (3, 70)


def _x(dtype, seed=0):
    made = torch.randn(X, generator=torch.Generator().manual_seed(seed))
    return (made * 4).to(dtype).to("spyre")


def _y(dtype):
    return _x(dtype, 1)


def _mask(dtype):
    return _x(dtype, 2) > 0


def _square(dtype, seed):
    made = torch.randn(64, 64, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return made.to("spyre")


def _batch(dtype, seed):
    return _square(dtype, seed)[None]


def _heads(dtype):
    return [_batch(dtype, seed)[None] for seed in range(3)]


CALLS = {
    "aten.clamp.default": [
        lambda d, s: _x(d).clamp(-s, 3 * s),
        lambda d, s: _x(d).clamp(s, -s),
        lambda d, s: _x(d).clamp(min=s),
        lambda d, s: _x(d).clamp(max=s),
    ],
    "aten.hardtanh.default": [lambda d, s: aten.hardtanh(_x(d), -s, 3 * s)],
    "aten.clamp_min.default": [lambda d, s: aten.clamp_min(_x(d), s)],
    "aten.clamp_max.default": [lambda d, s: aten.clamp_max(_x(d), s)],
    "aten.leaky_relu.default": [lambda d, s: aten.leaky_relu(_x(d), s)],
    "aten.softplus.default": [lambda d, s: aten.softplus(_x(d), 1 + s, 8 * s)],
    "aten.threshold.default": [lambda d, s: aten.threshold(_x(d), s, -2 * s)],
    "aten.hardshrink.default": [lambda d, s: aten.hardshrink(_x(d), s)],
    "aten.softshrink.default": [lambda d, s: aten.softshrink(_x(d), abs(s))],
    "aten.pow.Tensor_Scalar": [lambda d, s: _x(d).abs() ** (s + 0.07)],
    "aten.logit.default": [lambda d, s: aten.logit(_x(d).abs() / 8, abs(s) / 64)],
    "aten.mul.Scalar": [lambda d, s: aten.mul.Scalar(_x(d), s)],
    "aten.mul.Tensor": [lambda d, s: _x(d) * s, lambda d, s: torch.tensor(s) * _x(d)],
    "aten.div.Scalar": [lambda d, s: aten.div.Scalar(_x(d), s)],
    "aten.div.Tensor": [lambda d, s: _x(d) / s, lambda d, s: torch.tensor(s) / _x(d)],
    "aten.maximum.default": [lambda d, s: torch.maximum(_x(d), torch.tensor(s, dtype=d))],
    "aten.minimum.default": [lambda d, s: torch.minimum(_x(d), torch.tensor(s, dtype=d))],
    "aten.add.Scalar": [
        lambda d, s: aten.add.Scalar(_x(d), s),
        lambda d, s: aten.add.Scalar(_x(d), 3, s),
    ],
    "aten.sub.Scalar": [
        lambda d, s: aten.sub.Scalar(_x(d), s),
        lambda d, s: aten.sub.Scalar(_x(d), 3, s),
    ],
    "aten.rsub.Scalar": [
        lambda d, s: aten.rsub.Scalar(_x(d), s),
        lambda d, s: aten.rsub.Scalar(_x(d), 3, s),
    ],
    "aten.add.Tensor": [
        lambda d, s: _x(d) + s,
        lambda d, s: torch.add(_x(d), _y(d), alpha=s),
        lambda d, s: torch.tensor(s) + _x(d),
    ],
    "aten.sub.Tensor": [
        lambda d, s: _x(d) - s,
        lambda d, s: torch.sub(_x(d), _y(d), alpha=s),
        lambda d, s: torch.tensor(s) - _x(d),
    ],
    "aten.rsub.Tensor": [
        lambda d, s: aten.rsub.Tensor(_x(d), _y(d), alpha=s),
        lambda d, s: aten.rsub.Tensor(_x(d), torch.tensor(s)),
        lambda d, s: aten.rsub.Tensor(torch.tensor(s), _x(d)),
    ],
    "aten.elu.default": [
        lambda d, s: aten.elu(_x(d), s),
        lambda d, s: aten.elu(_x(d), 1, s),
        lambda d, s: aten.elu(_x(d), 1, 1, s),
    ],
    "aten.addcmul.default": [lambda d, s: torch.addcmul(_x(d), _y(d), _y(d), value=s)],
    "aten.addcdiv.default": [lambda d, s: torch.addcdiv(_x(d), _y(d), _y(d), value=s)],
    "aten.lerp.Scalar": [lambda d, s: torch.lerp(_x(d), _y(d), s)],
    "aten.pow.Scalar": [lambda d, s: torch.pow(s, _x(d))],
    "aten.where.self": [
        lambda d, s: torch.where(_mask(d), _x(d), torch.tensor(s)),
        lambda d, s: torch.where(_mask(d), torch.tensor(s), _x(d)),
    ],
    "aten.where.ScalarSelf": [lambda d, s: torch.where(_mask(d), s, _x(d))],
    "aten.where.ScalarOther": [lambda d, s: torch.where(_mask(d), _x(d), s)],
    "aten.where.Scalar": [lambda d, s: torch.where(_mask(d), s, 2 * s)],
    "aten.masked_fill.Scalar": [lambda d, s: _x(d).masked_fill(_mask(d), s)],
    "aten.addmm.default": [
        lambda d, s: torch.addmm(_square(d, 0), _square(d, 1), _square(d, 2), beta=s),
        lambda d, s: torch.addmm(_square(d, 0), _square(d, 1), _square(d, 2), alpha=s),
    ],
    "aten.baddbmm.default": [
        lambda d, s: torch.baddbmm(_batch(d, 0), _batch(d, 1), _batch(d, 2), beta=s, alpha=3 * s),
    ],
    "aten.fmod.Tensor": [lambda d, s: aten.fmod.Tensor(_x(d), torch.tensor(s))],
    "aten.fmod.Scalar": [lambda d, s: aten.fmod.Scalar(_x(d), s)],
    "aten.remainder.Tensor": [lambda d, s: aten.remainder.Tensor(_x(d), torch.tensor(s))],
    "aten.remainder.Scalar": [lambda d, s: aten.remainder.Scalar(_x(d), s)],
    "aten.remainder.Scalar_Tensor": [lambda d, s: aten.remainder.Scalar_Tensor(s, _x(d))],
    "aten.floor_divide.default": [lambda d, s: aten.floor_divide(_x(d), torch.tensor(s))],
    "aten.floor_divide.Scalar": [lambda d, s: aten.floor_divide.Scalar(_x(d), s)],
    "aten.div.Tensor_mode": [
        lambda d, s: aten.div.Tensor_mode(_x(d), torch.tensor(s), rounding_mode="floor"),
    ],
    "aten.div.Scalar_mode": [
        lambda d, s: aten.div.Scalar_mode(_x(d), s, rounding_mode="trunc"),
    ],
    "aten.copysign.Scalar": [lambda d, s: aten.copysign.Scalar(_x(d), s)],
    "aten.xlogy.Tensor": [
        lambda d, s: aten.xlogy(_x(d), torch.tensor(s)),
        lambda d, s: aten.xlogy(torch.tensor(s), _x(d)),
    ],
    "aten.xlogy.Scalar_Self": [lambda d, s: aten.xlogy.Scalar_Self(s, _x(d))],
    "aten.xlogy.Scalar_Other": [lambda d, s: aten.xlogy.Scalar_Other(_x(d), s)],
    "aten.special_xlog1py.self_scalar": [lambda d, s: aten.special_xlog1py(s, _x(d))],
    "aten.special_xlog1py.other_scalar": [lambda d, s: aten.special_xlog1py(_x(d), s)],
    "aten.scaled_dot_product_attention.default": [
        lambda d, s: aten.scaled_dot_product_attention(*_heads(d), scale=s),
    ],
    "aten._scaled_dot_product_fused_attention_overrideable.default": [
        lambda d, s: aten._scaled_dot_product_fused_attention_overrideable(*_heads(d), scale=s)[0],
    ],
    "aten.fill.Scalar": [lambda d, s: aten.fill.Scalar(_x(d), s)],
    "aten.constant_pad_nd.default": [lambda d, s: aten.constant_pad_nd(_x(d), [1, 2], s)],
} | {
    f"aten.{name}.{overload}": [
        (lambda d, s, name=name: getattr(aten, name).Scalar(_x(d), s))
        if overload == "Scalar"
        else (lambda d, s, name=name: getattr(aten, name).Tensor(_x(d), torch.tensor(s)))
    ]
    for name in ("eq", "ne", "lt", "le", "gt", "ge")
    for overload in ("Scalar", "Tensor")
}  # fmt: skip

# The same of integers.
OF_INTEGERS = {
    f"aten.bitwise_{name}.{overload}": (
        (lambda x, s, name=name: getattr(aten, f"bitwise_{name}").Scalar(x, s))
        if overload == "Scalar"
        else (lambda x, s, name=name: getattr(aten, f"bitwise_{name}").Scalar_Tensor(s, x))
    )
    for name in ("and", "or", "xor")
    for overload in ("Scalar", "Scalar_Tensor")
} | {
    f"aten.{name}": (
        (lambda x, s, op=op: op(s, x[40:48])) if name.endswith("r_Tensor") else op
    )
    for name, op in {
        "__lshift__.Scalar": lambda x, s: aten.__lshift__.Scalar(x, s % 9),
        "__rshift__.Scalar": aten.__rshift__.Scalar,
        "bitwise_left_shift.Tensor_Scalar": lambda x, s: x.bitwise_left_shift(s % 9),
        "bitwise_right_shift.Tensor_Scalar": torch.bitwise_right_shift,
        "bitwise_left_shift.Scalar_Tensor": torch.bitwise_left_shift,
        "bitwise_right_shift.Scalar_Tensor": torch.bitwise_right_shift,
    }.items()
} | {
    "aten.remainder.Scalar": lambda x, s: x % s,
    "aten.floor_divide.default": lambda x, s: x // s,
}  # fmt: skip

POLYNOMIALS = [f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_")
               for kind in "tuvw"] + ["hermite_polynomial_h", "hermite_polynomial_he",
                                      "laguerre_polynomial_l", "legendre_polynomial_p"]  # fmt: skip

# Numbers that are part of a program, and why.
FIXED = {
    f"aten.special_{name}.{operand}_scalar": "no program calls it with many numbers"
    for name, operands in {
        **dict.fromkeys(POLYNOMIALS, ("x", "n")),
        "zeta": ("self", "other"),
    }.items()
    for operand in operands
} | {
    "aten.var.correction": "it is one of few, and sets a factor together with the count",
    "aten.var_mean.correction": "as var",
    "aten.std.correction": "as var",
    "aten.linalg_vector_norm.default": "the order chooses the operations",
    "aten.norm.Scalar": "the order chooses the operations",
    "aten.norm.ScalarOpt_dim": "the order chooses the operations",
    "aten.arange.default": "ends and steps are sizes",
    "aten.arange.start": "ends and steps are sizes",
    "aten.arange.start_step": "ends and steps are sizes",
    "aten.scatter.value": "one of few",
    "aten.native_layer_norm.default": "the parameter of an opfunc; a program has one or two",
    "aten.layer_norm.default": "as native_layer_norm",
    "aten.rms_norm.default": "patterns of graphs know it; a program has one or two",
    "aten._fused_rms_norm.default": "as rms_norm",
    "aten.dropout.default": "the host draws",
}

# The device's allocation and fill.
MADE_BY_ALLOCATION = {"full", "full_like", "new_full", "scalar_tensor", "true_divide"}


@pytest.fixture
def counted(monkeypatch):
    """Programs that were compiled, from an empty table."""
    compiled = []
    compile_node = operator_program._compile_node

    def count(graph):
        executable = compile_node(graph)
        compiled.append(executable)
        return executable

    monkeypatch.setattr(operator_program, "_compile_node", count)
    operator_program.programs.clear()
    yield compiled
    operator_program.programs.clear()


def _bits(tensor):
    return tensor.cpu().contiguous().view(torch.uint8)


def _by_value(monkeypatch, call, dtype, numbers):
    """The results of programs whose numbers are constants."""
    with monkeypatch.context() as patch:
        patch.setattr(call_compiler, "takes_scalars", lambda: False)
        operator_program.programs.clear()
        results = [call(dtype, number) for number in numbers]
    operator_program.programs.clear()
    return results


def test_every_operator_with_a_number_is_listed():
    for name in _C.op_names():
        if not name.startswith("aten."):
            continue
        packet, overload = name.removeprefix("aten.").split(".")
        schema = getattr(getattr(aten, packet), overload)._schema
        types = [str(a.type).lower() for a in schema.arguments]
        has_number = any("number" in of or of in ("float", "optional[float]") for of in types)
        parametric = name in CALLS or name in OF_INTEGERS or packet in MADE_BY_ALLOCATION
        known = parametric or name in FIXED
        assert known or not has_number, name
        if any(_C.op_scalars(name, len(schema.arguments))):
            assert parametric, name


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_one_program_serves_all_integers(name, counted):
    x = torch.arange(-40, 40)
    for number in (3, 7, 12, 100):
        expected = OF_INTEGERS[name](x, number)
        assert torch.equal(OF_INTEGERS[name](x.to("spyre"), number).cpu(), expected)
    assert len(counted) == 1


# Made of several operators, of which some take the number's value or all are compiled apart.
OF_PARTS = {
    ("aten.div.Scalar_mode", torch.float32),
    ("aten.div.Tensor_mode", torch.float32),
    ("aten.floor_divide.Scalar", torch.float32),
    ("aten.floor_divide.default", torch.float32),
    ("aten.hardshrink.default", torch.float32),
    ("aten.pow.Scalar", torch.float32),
    ("aten.pow.Tensor_Scalar", torch.float32),
    ("aten.softplus.default", torch.float32),
    ("aten.softshrink.default", torch.float32),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=["float16", "float32"])
@pytest.mark.parametrize("name", CALLS)
def test_one_program_serves_all_values(name, dtype, counted, monkeypatch):
    numbers = FACTORS[:6] if name != "aten.lerp.Scalar" else FACTORS[:3]
    for call in CALLS[name]:
        try:
            expected = _by_value(monkeypatch, call, dtype, numbers)
        except torch_spyre.FallbackError:
            assert dtype == torch.float32  # comparisons, selections, products
            return
        assert len(counted) >= len(numbers)
        call(dtype, numbers[0])  # what it prepares (masks) is compiled
        counted.clear()
        results = [call(dtype, number) for number in numbers[1:]]
        assert len(counted) <= (len(results) if (name, dtype) in OF_PARTS else 0)
        for number, result, wanted in zip(numbers[1:], results, expected[1:], strict=True):
            assert torch.equal(_bits(result), _bits(wanted)), (name, number)


def _inputs_beforehand(monkeypatch, dtype):
    """What CALLS ask for, made once: a compiled function takes it as it is."""
    tensors = [_x(dtype, seed) for seed in range(3)]
    squares = [_square(dtype, seed) for seed in range(3)]
    mask, batches = _mask(dtype), [square[None] for square in squares]
    made = globals()
    monkeypatch.setitem(made, "_x", lambda _dtype, seed=0: tensors[seed])
    monkeypatch.setitem(made, "_y", lambda _dtype: tensors[1])
    monkeypatch.setitem(made, "_mask", lambda _dtype: mask)
    monkeypatch.setitem(made, "_square", lambda _dtype, seed: squares[seed])
    monkeypatch.setitem(made, "_batch", lambda _dtype, seed: batches[seed])


def test_a_compiled_graph_has_no_program_a_value(monkeypatch):
    """Where Dynamo traces a function once for all values: there are two programs, of the value that
    it saw first and of all others, and one more where the compiler tells classes apart."""
    _inputs_beforehand(monkeypatch, torch.float16)
    traced_once = set()
    for name, calls in CALLS.items():
        for call in calls[:1]:
            torch._dynamo.reset()
            graphs = torch._dynamo.utils.counters["stats"]
            graphs["unique_graphs"] = 0
            torch_spyre.report.reports.clear()
            compiled = torch.compile(call)
            for number in FACTORS[:4]:
                compiled(torch.float16, number)
            if graphs["unique_graphs"] < 3:
                traced_once.add(name)
                assert len(torch_spyre.compile_reports()) <= 3, name
    arithmetic = {f"aten.{name}.Tensor" for name in ("add", "sub", "mul", "div")}
    assert traced_once >= arithmetic, traced_once
    torch._dynamo.reset()


def test_fifty_factors_are_one_program(counted):
    x = _x(torch.float16)
    for factor in FACTORS:
        x * factor
    assert len(counted) == 1


@pytest.mark.parametrize("form", ["in place", "out"])
def test_forms_that_write_take_parameters(form, counted):
    x, out = _x(torch.float16), _y(torch.float16)
    for factor in FACTORS:
        if form == "out":
            torch.mul(x, factor, out=out)
            wanted = x.cpu() * factor
        else:
            out = _y(torch.float16)
            wanted = out.cpu().mul_(factor)
            out.mul_(factor)
        torch.testing.assert_close(out.cpu(), wanted, rtol=4e-3, atol=4e-3)
    assert len(counted) == 1


def test_values_with_a_meaning_keep_their_programs(counted):
    x, y = _x(torch.float16), _y(torch.float16)
    torch.add(x, y, alpha=1)
    torch.add(x, y, alpha=2)
    torch.add(x, y, alpha=5)
    assert len(counted) == 2


def test_ends_of_lerp_are_two_programs(counted):
    x, y = _x(torch.float16), _y(torch.float16)
    for weight in (0.1, 0.2, 0.49, -0.3, 0.5, 0.7, 1.4, -2.0):
        got = torch.lerp(x, y, weight).cpu()
        wanted = torch.lerp(x.cpu().float(), y.cpu().float(), weight)
        torch.testing.assert_close(got.float(), wanted, rtol=1e-2, atol=4e-2)
    assert len(counted) == 2


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 1e30, 7e4, -0.0, 0])
def test_values_that_not_all_dtypes_hold(value, counted, monkeypatch):
    def call(dtype, s):
        return _x(dtype) + s

    wanted = _by_value(monkeypatch, call, torch.float16, [value])[0]
    call(torch.float16, 1.5)
    assert torch.equal(_bits(call(torch.float16, value)), _bits(wanted))
    assert torch.equal(_bits(call(torch.float16, value)), _bits(wanted))


def test_integers_stay_exact(counted):
    x = torch.arange(-100, 100).to("spyre")
    for k in (2, 3, 70_000, 2**20, -(2**20)):
        assert torch.equal((x + k).cpu(), x.cpu() + k)
        assert torch.equal((x * k).cpu(), x.cpu() * k)
        assert torch.equal((x > k).cpu(), x.cpu() > k)
    assert len(counted) == 3


def test_an_int_and_a_float_are_two_programs(counted):
    x = torch.arange(1, 100).to("spyre")
    assert (x + 2).dtype == torch.int64
    assert (x + 2.5).dtype == torch.float32
    torch.testing.assert_close((x + 3.25).cpu(), x.cpu() + 3.25)
    assert len(counted) == 2


@pytest.mark.host("aten")
def test_where_the_program_needs_the_value(counted):
    """A bool result of numbers, or an integer of a float, is compiled with the value."""
    x = torch.arange(6).to("spyre")
    for value in (2.0, 3.0, 2.0, 3.0, 2.0, 3.0):
        assert torch.equal(aten.fill.Scalar(x, value).cpu(), torch.full((6,), int(value)))


def _product(factor):
    return (torch.ones(1, dtype=torch.float16, device="spyre") * factor).cpu()


def test_launches_that_are_queued_have_their_own_numbers():
    x = torch.ones(2048, 2048, dtype=torch.float16, device="spyre")
    results = [x * factor for factor in FACTORS]
    for factor, result in zip(FACTORS, results, strict=True):
        assert torch.equal(result.cpu(), _product(factor).expand(2048, 2048))


def test_threads_have_their_own_numbers():
    x = torch.ones(3, 70, dtype=torch.float16, device="spyre")
    wrong = []

    def work(offset):
        for i in range(200):
            factor = offset + i / 256
            if (x * factor).cpu()[0, 0].item() != torch.tensor(factor).half().item():
                wrong.append(factor)

    assert (x * 0.75).cpu()[0, 0].item() == 0.75
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_streams_have_their_own_numbers():
    x = torch.ones(1024, 1024, dtype=torch.float16, device="spyre")
    torch.spyre.synchronize()
    streams = [torch.spyre.Stream() for _ in range(4)]
    results = []
    for i, factor in enumerate(FACTORS[:20]):
        with torch.spyre.stream(streams[i % 4]):
            results.append(x * factor)
    torch.spyre.synchronize()
    for factor, result in zip(FACTORS, results, strict=False):
        assert torch.equal(result.cpu()[5, 5:6], _product(factor))


def test_a_launch_without_its_numbers_is_refused(counted):
    x = _x(torch.float16)
    x * 1.5
    executable = counted[-1]
    assert executable.segment(0)["scalars"] == 1
    with pytest.raises(ValueError, match="the segment takes 1 numbers, 0 were given"):
        executable.launch(0, [x], 0)


def test_the_interpreter_takes_numbers(counted):
    x = _x(torch.float16)
    for factor in (1.5, 2.25):
        direct = x * factor
        by_definition = counted[-1].interpret(0, [x], 0, (factor,))[0]
        assert torch.equal(direct.cpu(), by_definition.cpu())


def test_the_graph_s_text_reads_back(counted):
    graph = _C.Graph()
    x = _x(torch.float16)
    value = graph.add_input("x", x)
    _node, results = graph.add_node(
        "y",
        "aten.mul.Tensor",
        [(value,), (0, 2.0)],
        [node_arguments.result_type(x, True)],
        None,
    )
    graph.add_output(results[0])
    assert "aten.mul.Tensor(%x, $0(2.0))" in str(graph)


def test_programs_in_files_hold_their_numbers(counted, monkeypatch, tmp_path):
    x = _x(torch.float16)
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))
    for factor in (1.5, 2.5):
        x * factor
        assert counted[-1].segment(0)["scalars"] == 0
        assert any(str(factor) in path.read_text() for path in tmp_path.rglob("*.loop"))
    assert len(counted) == 2


STORED = {
    "eq": lambda x, s: x == s,
    "ne": lambda x, s: x != s,
    "lt": lambda x, s: x < s,
    "ge": lambda x, s: x >= s,
    "clamp": lambda x, s: x.clamp(-s, s) == x,
    "clamp_min": lambda x, s: aten.clamp_min(x, s) == x,
    "where": lambda x, s: torch.where(x > 0, s, x) == x,
    "masked_fill": lambda x, s: x.masked_fill(x > 0, s) == x,
    "pad": lambda x, s: aten.constant_pad_nd(x, [70, 0], s)[:70] == x,
    "full_like": lambda x, s: torch.full_like(x, s) == x,
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", STORED)
def test_a_number_compares_as_the_tensor_that_holds_it(name, dtype, compiled):
    """A tensor rounds a number to its dtype, and so does what compares or stores the number."""
    torch._dynamo.reset()
    f = torch.compile(STORED[name]) if compiled else STORED[name]
    for s in FACTORS[:: 10 if compiled else 1]:
        x = torch.full((70,), s, dtype=dtype)
        assert torch.equal(f(x.to("spyre"), s).cpu(), STORED[name](x, s)), s


@pytest.mark.parametrize("dtype", [None, torch.float64, torch.int64, torch.bool])
def test_a_tensor_made_of_a_number_in_a_compiled_graph_is_that_number(dtype):
    """Tests fail where an operator falls back to the host."""
    x = _x(torch.float16)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, s: (torch.tensor(s, dtype=dtype) * x, torch.full((), s) + x))
    for s in FACTORS[:4]:
        wanted = torch.tensor(s, dtype=dtype) * x.cpu(), torch.full((), s) + x.cpu()
        for found, expected in zip(compiled(x, s), wanted, strict=True):
            torch.testing.assert_close(found.cpu(), expected, rtol=4e-3, atol=4e-3)


@pytest.mark.host("aten.mul.Tensor")
def test_such_a_tensor_that_is_a_result_too_stays_one():
    def both(x, s):
        made = torch.tensor(s)
        return made, made * x

    compiled, x = torch.compile(both), _x(torch.float16)
    results = [compiled(x, s)[0] for s in FACTORS[:4]]
    assert [r.item() for r in results] == [torch.tensor(s).item() for s in FACTORS[:4]]
    assert len({r.data_ptr() for r in results}) == len(results)


# ---- operators that are taken apart

APART = {
    "huber_loss": lambda d, s: aten.huber_loss(_x(d), _y(d), 0, s),
    "smooth_l1_loss": lambda d, s: aten.smooth_l1_loss(_x(d), _y(d), 0, s),
    "nan_to_num": lambda d, s: _x(d).nan_to_num(s, 3 * s, -s),
    "nan_to_num_": lambda d, s: _x(d).nan_to_num_(s),
    "nan_to_num.out": lambda d, s: torch.nan_to_num(_x(d), s, out=_y(d)),
    "threshold_backward": lambda d, s: aten.threshold_backward(_x(d), _y(d), s),
    "hardtanh_backward": lambda d, s: aten.hardtanh_backward(_x(d), _y(d), -s, s),
    "leaky_relu_backward": lambda d, s: aten.leaky_relu_backward(_x(d), _y(d), s, False),
    "elu_backward": lambda d, s: aten.elu_backward(_x(d), s, 1.0, 1.0, False, _y(d)),
    "softplus_backward": lambda d, s: aten.softplus_backward(_x(d), _y(d), s, 20),
    "huber_loss_backward": lambda d, s: aten.huber_loss_backward(_x(d), _x(d), _y(d), 1, s),
    "isin": lambda d, s: torch.isin(_x(d), s),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", APART)
def test_parts_serve_all_values(name, dtype, counted, monkeypatch):
    """After a few programs by value the parts are called, with the same bits."""
    call, numbers = APART[name], FACTORS[:8]
    with monkeypatch.context() as patch:
        patch.setattr(programs_by_number, "MOST_NUMBERS", 100)
        try:
            expected = [call(dtype, number) for number in numbers]
        except torch_spyre.FallbackError:
            assert dtype == torch.float32
            return
    assert len(counted) >= len(numbers)
    operator_program.programs.clear()
    for operator in operator_program._operators.values():
        operator.numbered.clear()
    results = [call(dtype, number) for number in numbers[:4]]
    counted.clear()
    results += [call(dtype, number) for number in numbers[4:]]
    assert not counted
    for number, result, wanted in zip(numbers, results, expected, strict=True):
        assert result.dtype == wanted.dtype and result.stride() == wanted.stride()
        assert torch.equal(_bits(result), _bits(wanted)), number


def test_parts_with_programs_by_value_are_not_called_for_long(counted):
    x = _x(torch.float16)[None]
    for number in FACTORS[:8]:
        torch.nn.functional.group_norm(x, 1, eps=number)
    (calls,) = operator_program.operator_of(aten.native_group_norm.default).numbered.values()
    assert calls.is_by_value and calls.runs == programs_by_number.MOST_NUMBERS + 1
