# SPDX-License-Identifier: Apache-2.0
"""What the host computes: said, refused or silent, and accounted for."""

import pathlib
import re
import sys
import warnings

import pytest
import torch
import torch_spyre
from host_ops import HOST, REASON, UNKNOWN, on_host, unknown
from torch_spyre import _C, _fallback
from torch_spyre.compile import call_compiler

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def fresh():
    torch_spyre.reset_fallback_report()


def card(*shape, dtype=torch.float16):
    return torch.ones(shape, dtype=dtype).to("spyre")


def said(function, *arguments):
    """The texts of fallback warnings of a call."""
    with torch_spyre.fallback("warn"), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        function(*arguments)
    assert all(w.filename == __file__ for w in seen if w.category is torch_spyre.FallbackWarning)
    return [str(w.message) for w in seen if w.category is torch_spyre.FallbackWarning]


def test_a_warning_names_operator_operands_line_and_rule():
    (text,) = said(lambda: on_host(card(3, 4)))
    assert text.startswith(f"spyre: {HOST}.default of float16[3, 4] runs on the CPU (test_fal")
    assert f": {REASON}. A decomposition brings it to the card" in text
    assert text.endswith(f'`torch_spyre.fallback("warn", allow=["{HOST}"])` accepts it')


def test_a_warning_has_the_remedy():
    (text,) = said(lambda: card(4, 4, dtype=torch.float32) @ card(4, 4, dtype=torch.float32))
    assert "aten.mm.default of float32[4, 4], float32[4, 4]" in text
    assert text.endswith("`.half()`, `torch.autocast('spyre')`, or SPYRE_PROFILE=extended")


def rules_of_the_net():
    """(operator, rule) of every fallback that the operator net has met."""
    table = (ROOT / "tests" / "ops" / "operators.txt").read_text()
    notes = (line.partition(" | ")[2] for line in table.splitlines())
    return {(op, rule) for op, rule in re.findall(r"[\w ]+: ([\w.]+): ([^;]+)", "; ".join(notes))}


def test_every_rule_says_what_the_card_lacks_and_what_to_do():
    rules = rules_of_the_net()
    assert len(rules) > 300
    for op, rule in rules:
        text = _fallback.describe(op, (), rule, "")
        assert len(text) < 400 and "\n" not in text, text
        assert not re.search(r"lowering|Meta tensors|decomposition does not|https:", text), text
        assert re.search(r"`[^`]+`", text.rpartition(". ")[2]), text  # code that does it


@pytest.mark.parametrize(
    ("rule", "remedy"),
    [
        ("operand 0: erf on float32", "SPYRE_PROFILE=extended"),
        ("operand 0: batchmatmul on int64", "`.half()` before"),
        ("input arg0: the card has no format for ComplexFloat", "torch.view_as_real()"),
        ("input arg2: its int64 values do not fit the card's 32-bit integers", "below 2^31"),
        ("the card has no sparse tensors", "`to_dense()`"),
        (
            "random numbers are drawn on the host",
            '`torch_spyre.fallback("warn", allow=["aten.x"])`',
        ),
    ],
)
def test_remedies(rule, remedy):
    assert remedy in _fallback.describe("aten.x.default", (), rule, "")


@pytest.mark.parametrize("name", ["erf", "asin"])
@pytest.mark.parametrize("compiled", [False, True])
def test_errors_name_opfunc_and_format(name, compiled):
    """Float32 has the functions that it has in torch-spyre, and what is made of them."""
    function = getattr(torch, name)
    run = torch.compile(lambda x: function(x)) if compiled else function
    with pytest.raises(torch_spyre.FallbackError, match=f"{name} on float32"):
        run(card(3, 70, dtype=torch.float32))
    assert run(card(3, 70)).dtype == torch.float16
    for other in (torch.exp, torch.sigmoid, torch.sqrt, torch.floor):
        other(card(3, 70, dtype=torch.float32))


def test_one_warning_for_each_operator_and_rule():
    x = card(3, 4)
    assert len(said(on_host, x)) == 1
    assert said(on_host, x) == [] == said(on_host, card(7))
    assert len(said(lambda: torch.nextafter(x, x))) == 1


def test_modes_nest_and_end_in_any_order():
    x = card(3)
    assert torch_spyre.fallback.mode == "error"
    with pytest.raises(torch_spyre.FallbackError, match=rf"{HOST}.default of float16\[3\]"):
        on_host(x)
    with torch_spyre.fallback("silent"):
        with torch_spyre.fallback("error"), pytest.raises(torch_spyre.FallbackError):
            on_host(x)
        assert on_host(x).cpu().allclose(on_host(x.cpu().float()).half())
    outer, inner = torch_spyre.fallback("silent"), torch_spyre.fallback("warn")
    outer.__enter__()
    inner.__enter__()
    outer.__exit__()
    assert torch_spyre.fallback.mode == "warn"
    inner.__exit__()
    assert torch_spyre.fallback.mode == "error"


def test_a_decorator_and_exceptions_from_the_rule():
    @torch_spyre.fallback("error", allow=[HOST])
    def step(x):
        return unknown(on_host(x))

    with pytest.raises(torch_spyre.FallbackError, match=UNKNOWN):
        step(card(3))
    result = torch_spyre.fallback("silent")(step.__wrapped__)(card(3)).cpu()
    expected = unknown(on_host(torch.ones(3)))
    torch.testing.assert_close(result.float(), expected, rtol=1e-2, atol=0)


def test_the_setting():
    with pytest.raises(ValueError, match="'loud', expected one of warn, error, silent"):
        torch_spyre.fallback("loud")
    with pytest.raises(TypeError, match="allow='aten.sort', expected a list of operators"):
        torch_spyre.fallback("error", allow="aten.sort")
    with pytest.raises(ValueError, match="'loud'"):
        torch_spyre.fallback.set("loud")
    for name in ("nope", "aten.nope", "aten.sort.nope", "aten."):
        with pytest.raises(ValueError, match=f"allow='{name}', expected an operator's name"):
            torch_spyre.fallback("error", allow=["aten.sort.stable", "cond", "later.defined", name])


def test_what_is_set_in_a_block_ends_with_it(run_python):
    with torch_spyre.fallback("silent"):
        torch_spyre.fallback.set("error")
        assert torch_spyre.fallback.mode == "error"
        with torch_spyre.fallback("silent"):
            torch_spyre.fallback.set("warn")
        assert torch_spyre.fallback.mode == "error"
    block = torch_spyre.fallback("silent")
    for _ in range(2):
        with block:
            assert torch_spyre.fallback.mode == "silent"
            torch_spyre.fallback.set("warn")
    run_python("""
import torch_spyre
torch_spyre.fallback.set("silent")
assert torch_spyre.fallback.mode == torch_spyre.config.fallback == "silent"
""")


def test_the_variable(run_python):
    program = "import torch, torch_spyre; print(torch_spyre.fallback.mode)"
    assert run_python(program, SPYRE_FALLBACK="silent").stdout == "silent\n"
    assert run_python(program, SPYRE_FALLBACK="").stdout == "warn\n"


def test_an_error_leaves_what_would_be_written():
    x = card(3)
    with pytest.raises(torch_spyre.FallbackError):
        x.igamma_(x)
    assert x.cpu().tolist() == [1, 1, 1]


def test_backward_passes_obey_the_same_block():
    x = card(3, dtype=torch.float32).requires_grad_()
    with torch_spyre.fallback("silent"):
        y = torch.igamma(x.detach(), x).sum()
    with pytest.raises(torch_spyre.FallbackError, match="aten."):
        y.backward()


def test_compiled_graphs():
    def function(x):
        return on_host(x * 2) + 1

    compiled = torch.compile(function)
    x = card(3, 4)
    for _ in range(2):
        match = rf"{HOST}.default of float16\[3, 4\] .*test_fallback.py:\d+ in function\): the"
        with pytest.raises(torch_spyre.FallbackError, match=match):
            compiled(x)
    assert len(said(compiled, x)) == 1
    with torch_spyre.fallback("silent"):
        compiled(x)
    (record,) = [r for r in torch_spyre.fallback_report() if r.op == f"{HOST}.default"]
    assert (record.calls, record.is_fallback) == (2, True)
    assert record.bytes_to_host == 2 * x.nbytes and record.bytes_to_card == 2 * x.nbytes


@pytest.mark.host("aten.i0")
@pytest.mark.parametrize(
    "parts",
    [
        lambda x: x.split([32, 32], -1),
        lambda x: x.unbind(0),
        lambda x: torch.chunk(x.transpose(0, 1), 2),
        lambda x: [x.view(2, 128)[0]],
    ],
)
def test_compiled_operators_on_the_host_read_views(parts):
    def function(x):
        return [torch.special.i0(part.reshape(-1)) for part in parts(x)]

    torch._dynamo.reset()
    x = card(4, 64)
    for actual, expected in zip(torch.compile(function)(x), function(x.cpu()), strict=True):
        assert torch.equal(actual.cpu(), expected)


@pytest.mark.host("aten._weight_norm_interface", "aten._weight_norm_interface_backward")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dim", [0, 2])
def test_kernels_of_the_cpu_with_statistics_in_float32(dim, dtype, compiled):
    """Those of 16-bit operands arrive in 16 bits."""

    def gradients(v, g, function):
        v, g = v.detach().requires_grad_(), g.detach().requires_grad_()
        (function(v, g, dim) * factors.to(v.device)).sum().backward()
        return v.grad.cpu().float(), g.grad.cpu().float()

    torch._dynamo.reset()
    v = torch.randn(64, 32, 16).to(dtype)
    factors, g = torch.randn(64, 32, 16).to(dtype), torch.norm_except_dim(v.float(), 2, dim)
    normed = torch.compile(torch._weight_norm) if compiled else torch._weight_norm
    actual = gradients(v.to("spyre"), g.to("spyre", dtype), normed)
    factors = factors.float()
    expected = gradients(v.float(), g.to(dtype).float(), torch._weight_norm)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=0.02, rtol=0.02)


def test_the_compilers_reasons_by_node(tmp_path, run_python):
    program = f"""if True:
        import torch, torch_spyre
        from torch_spyre.compile import call_compiler
        call_compiler.observers.append(lambda made: print(made.nodes()))
        torch.compile(lambda x: torch.ops.{HOST}(x * 2))(torch.ones(3, device="spyre"))
        print(torch_spyre.compile_statistics()["compilations"])
    """
    options = {"SPYRE_CACHE_DIR": str(tmp_path), "SPYRE_FALLBACK": "silent"}
    fresh = run_python(program, **options).stdout.splitlines()
    assert fresh[-1] != "0"
    assert "('aten.mul.Tensor', 'unknown', 'native', None, None)" in fresh[-2]
    assert f"'host', '{REASON}', None)" in fresh[-2]
    known = run_python(program, **options).stdout.splitlines()
    assert known == [*fresh[:-1], "0"]


@pytest.mark.host("graph")
def test_every_graph_that_is_interpreted_has_a_warning_and_a_report():
    x = torch.ones(1, 1, 1, 1, 1, 1, 1, 1, 2, dtype=torch.float16)
    before = len(torch_spyre.compile_reports())
    for number, function in enumerate((lambda x: x + x, lambda x: x * x)):
        texts = said(torch.compile(function), x.to("spyre"))
        assert any(text.startswith("spyre: graph of float16[1,") for text in texts), number
        report = torch_spyre.last_report()
        assert report.interpreted and report.interpreted in report.text
        assert "interpreted node by node" in str(report)
    assert len(torch_spyre.compile_reports()) == before + 2


def test_what_reads_nothing_of_the_card_is_no_fallback():
    torch.empty(4, device="spyre").normal_().normal_()
    torch.arange(5, device="spyre")
    made = {r.op: r for r in torch_spyre.fallback_report()}
    assert not any(record.is_fallback for record in made.values())
    drawn, counted = made["aten.normal_.default"], made["aten.arange.default"]
    assert (drawn.calls, drawn.bytes_to_host, drawn.bytes_to_card) == (2, 0, 32)
    assert (counted.calls, counted.bytes_to_host, counted.bytes_to_card) == (1, 0, 40)


@pytest.mark.host(HOST, UNKNOWN)
def test_the_report():
    x = card(3, 4)
    for _ in range(3):
        on_host(x)
    unknown(x)
    report = torch_spyre.fallback_report()
    assert sorted((r.op, r.calls) for r in report) == [
        (f"{UNKNOWN}.out", 1),
        (f"{HOST}.default", 3),
    ]
    assert all(r.bytes_to_host == r.calls * x.nbytes and r.seconds > 0 for r in report)
    assert report[0].seconds >= report[1].seconds
    lines = str(report).splitlines()
    assert len(lines) == 3 and REASON in str(report)
    torch_spyre.reset_fallback_report()
    assert torch_spyre.fallback_report() == ()


def test_the_table_of_warnings_is_bounded(monkeypatch):
    monkeypatch.setattr(_fallback, "_MOST_WARNINGS", 3)
    with torch_spyre.fallback("warn"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(9):
            _fallback.meet(f"aten.op{number}", (), "a rule")
    assert len(_fallback._said) == 3


@pytest.mark.parametrize("mode", ["warn", "error", "silent"])
def test_an_internal_error_is_never_a_fallback(mode, monkeypatch):
    def broken(*_arguments, **_options):
        raise _C.InternalError("after pass x: I-1")

    monkeypatch.setattr(call_compiler, "compile_graph", broken)
    x = card(3, 5, 7)
    with torch_spyre.fallback(mode), pytest.raises(torch_spyre.InternalError, match="I-1"):
        x.sin()
    with torch_spyre.fallback(mode), pytest.raises(torch_spyre.InternalError, match="I-1"):
        torch.compile(torch.sin)(x)
    assert torch_spyre.fallback_report() == ()
    assert issubclass(torch_spyre.InternalError, RuntimeError)


def test_wrong_arguments_are_pytorchs_errors_in_every_mode():
    for mode in ("warn", "error"):
        with torch_spyre.fallback(mode), pytest.raises(TypeError, match="argument"):
            card(3).sin(5)
        with torch_spyre.fallback(mode), pytest.raises(RuntimeError, match="must match"):
            card(3) + card(4)
    assert torch_spyre.fallback_report() == ()


@pytest.mark.host("aten.fill_", "aten.zero_", "aten.masked_fill_", "aten.erfinv_")
@pytest.mark.parametrize("dtype", [torch.float16, torch.int64])
@pytest.mark.parametrize(
    "view", [lambda x: x[:1].expand(4), lambda x: x[1:3, None].expand(2, 3)], ids=["one", "rows"]
)
def test_what_is_equal_may_be_written_to_one_place_twice(view, dtype):
    """As on the CPU, which refuses what is not: both write the same or raise the same."""
    for write in (lambda x: x.fill_(2), lambda x: x.zero_(), lambda x: x.masked_fill_(x < 3, 1),
                  lambda x: x.add_(1), lambda x: x.erfinv_()):  # fmt: skip
        expected, actual = torch.full((6,), 7, dtype=dtype), torch.full((6,), 7, dtype=dtype)
        actual = actual.to("spyre")
        try:
            write(view(expected))
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error).split(" ", 1)[0]):
                write(view(actual))
        else:
            write(view(actual))
        assert torch.equal(actual.cpu(), expected)


def test_fallbacks_of_backward_passes_name_a_line_of_the_program():
    x = torch.ones(3, 2, dtype=torch.float32, device="spyre", requires_grad=True)

    def backward(anomalies):
        with torch.autograd.set_detect_anomaly(anomalies, check_nan=False):
            result = torch.igamma(torch.ones(3, 2, device="spyre"), x).sum()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch_spyre.reset_fallback_report()
            result.backward()
        return next(w for w in seen if "backward pass" in str(w.message)), sys._getframe().f_lineno

    with torch_spyre.fallback("warn"):
        for anomalies, lines in ((False, 2), (True, 6)):
            said, at = backward(anomalies)
            assert said.filename == __file__ and abs(at - said.lineno) <= lines
            place = f"(backward pass of test_fallback.py:{said.lineno})"
            assert place in str(said.message)
            assert anomalies == (at - said.lineno > 2)


@pytest.mark.host("aten.reciprocal")
def test_what_pytorch_computes_for_itself_has_no_warning():
    def step():
        scaler = torch.amp.GradScaler("spyre")
        layer = torch.nn.Linear(4, 2).to("spyre")
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        scaler.scale(layer(torch.ones(2, 4, device="spyre")).sum()).backward()
        scaler.unscale_(optimizer)
        str(torch.ones(3, dtype=torch.complex64).to("spyre"))

    assert not [text for text in said(step) if "reciprocal" in text or "complex" in text]
