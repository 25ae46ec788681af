# SPDX-License-Identifier: Apache-2.0
"""What chosen operators use inside compiled programs."""

import pytest
import torch
import torch_spyre
from torch_spyre import profiling

ALL = list(profiling.METRICS)


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


def block(x, weight, other):
    return torch.softmax(x @ weight, -1) @ other


def operands():
    torch.manual_seed(0)
    return [torch.randn(*size).half().to("spyre") for size in ((64, 128), (128, 192), (192, 64))]


def instrumented(*ops, function=block):
    return torch.compile(function, options={"spyre_instrument_ops": list(ops)})


def test_a_row_per_named_operator():
    f, inputs = instrumented("aten.mm", "aten._softmax"), operands()
    f(*inputs)  # before the instrument: does not count
    kernels = torch_spyre.last_report().counters
    with profiling.instrument(metrics=ALL) as prof:
        f(*inputs), f(*inputs)
    rows = {row["op"]: row for row in prof.rows()}
    assert list(rows) == ["aten.mm", "aten._softmax"]
    products = [k for k in kernels if k["name"].endswith("batchmatmul")]
    us = sum(k["us"] for k in products)
    product = rows["aten.mm"]
    assert len(products) == 2 and product["launches"] == 2
    assert product["execution_time"] == pytest.approx(2 * us)
    assert product["dma_latency"] == pytest.approx(2 * sum(k["memory_busy_us"] for k in products))
    busy = sum(k["pt_busy_us"] for k in products)
    assert product["pe_util"] == pytest.approx(100 * busy / us) and product["pe_util"] > 0
    cores = sum(k["us"] * k["cores"] for k in products)
    assert product["core_util"] == pytest.approx(100 * cores / us / 32)
    assert rows["aten._softmax"]["pe_util"] == 0 < rows["aten._softmax"]["execution_time"]
    whole = sum(k["us"] for k in kernels)
    assert sum(row["execution_time"] for row in rows.values()) <= 2 * whole * 1.0001
    assert all(0 <= row[m] <= 100 for row in rows.values() for m in ALL[2:])


def test_the_report_has_a_line_for_each(capsys):
    f, inputs = instrumented("aten.mm"), operands()
    with profiling.instrument(metrics=["execution_time", "pe_util"]) as prof:
        f(*inputs)
    prof.print_report()
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["Op", "Launches", "Exec", "(us)", "PE", "Util%"]
    assert line.split()[:2] == ["aten.mm", "1"] and float(line.split()[2]) > 0


def test_programs_and_results_stay_the_same():
    inputs = operands()
    expected = torch.compile(block)(*inputs).cpu()
    plain = torch_spyre.last_report().counters
    torch._dynamo.reset()
    f = instrumented("aten.mm")
    with profiling.instrument():
        assert torch.equal(f(*inputs).cpu(), expected)
    assert torch_spyre.last_report().counters == plain


def test_what_is_not_named_or_not_instrumented_has_no_row(capsys):
    inputs = operands()
    with profiling.instrument() as prof:
        torch.compile(block)(*inputs)
    prof.print_report()
    assert capsys.readouterr().out == "no launch of an instrumented operator\n"
    torch._dynamo.reset()
    f = instrumented("aten._softmax", "aten.addmm")
    with profiling.instrument() as outer, profiling.instrument() as inner:
        f(*inputs)
    assert [row["op"] for row in outer.rows()] == ["aten._softmax"] and inner.rows() == outer.rows()


@pytest.mark.parametrize("name", ["aten.nothing", "mm"])
def test_a_name_of_no_operator(name):
    with pytest.raises(Exception, match=f"spyre_instrument_ops: {name!r} is no operator like"):
        instrumented(name)(*operands())


def test_a_number_is_no_name():
    with pytest.raises(ValueError, match=r"instrument_ops=\[3\]: expected a list of operators"):
        instrumented(3)(*operands())


def test_unknown_metrics_and_values():
    with pytest.raises(ValueError, match="metric 'speed': expected one of execution_time, "):
        profiling.instrument(metrics=["speed"])
    with pytest.raises(RuntimeError, match="spyre_instrument_ops, got str should be list"):
        torch.compile(block, options={"spyre_instrument_ops": "aten.mm"})(*operands())
