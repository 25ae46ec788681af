# SPDX-License-Identifier: Apache-2.0
"""cost_model_pass: the prediction of a compiled graph as a value, and while passes run."""

import threading

import pytest
import torch
from torch_spyre import config, passes
from torch_spyre._inductor import spyre_hint
from torch_spyre._inductor.wsr.propagate_named_dims import declare_tensor_dim, name_tensor_dims
from torch_spyre.debug import cost_report as cost_model_pass

MIB = 1 << 20


def report_of(function, *tensors):
    torch._dynamo.reset()
    with config.patch(cost_model="1"):
        torch.compile(function, dynamic=False)(*tensors)
    return cost_model_pass.LAST_REPORT


def on_card(*sizes):
    return torch.randn(*sizes, dtype=torch.half).to("spyre")


def test_ops_add_up_to_kernels_and_the_graph():
    report = report_of(lambda x: torch.softmax(x, -1), on_card(1024, 512))
    (group,) = report.groups
    names = ["max", "sub", "exp", "sum", "realdiv"]
    assert [op.opfunc for op in group.ops] == names and report.n_modelled_ops == 5
    assert report.total_us == group.predicted_us == sum(op.predicted_us for op in group.ops)
    traffic = {op.opfunc: op.hbm_bytes for op in group.ops}
    assert traffic == {"max": MIB, "sub": MIB, "exp": 0, "sum": 0, "realdiv": MIB}
    assert all(op.trip == 1 and op.hbm_per_iter == op.hbm_bytes for op in group.ops)
    assert group.ops[2].lx_bytes == 2 * MIB and group.ops[2].predicted_us > 0


@pytest.mark.host("aten._linalg_det")
def test_a_host_operator_parts_two_kernels():
    report = report_of(lambda x: torch.det(x.float()).half() + x.exp() * 2, on_card(64, 64))
    assert [group.index for group in report.groups] == list(range(len(report.groups)))
    assert len(report.groups) > 1


def test_loops_count_what_they_read_again():
    declare_tensor_dim("M", 512)
    a, b = on_card(512, 128), on_card(128, 256)
    name_tensor_dims(a, ["M", None])

    def tiled(a, b):
        with spyre_hint(num_tiles_per_dim={"M": 4}):
            return a @ b

    report = report_of(tiled, a, b)
    (product,) = [op for op in report.groups[0].ops if op.opfunc == "batchmatmul"]
    assert product.loop_group_id == (0,) and product.trip == 4
    assert report.groups[0].loop_group_ids == [(0,)] and report.groups[0].loop_trip == 4
    size = 128 * 256 * 2
    assert product.reread_bytes == 3 * size
    assert product.hbm_bytes == 512 * 128 * 2 + 4 * size + 512 * 256 * 2
    assert product.hbm_per_iter * 4 == product.hbm_bytes
    text = report.format()
    assert "loop 0, 4 iterations" in text and "= 4 x 163.8 KB  re-fetch 196.6 KB" in text


def test_an_input_that_is_read_twice_moves_once():
    x = on_card(1024, 512)
    assert report_of(lambda x: x * x, x).groups[0].ops[0].hbm_bytes == 2 * MIB


def test_passes_may_ask_while_they_run(monkeypatch):
    seen = []

    def ask(graph):
        seen.append(cost_model_pass.cost_model_pass(graph))

    monkeypatch.setattr(passes.CustomPreSchedulingPasses, "passes", [ask])
    report = report_of(lambda x: x.exp() + 1, on_card(1024, 512))
    (before,) = seen
    assert before.groups[0].op_names == report.groups[0].op_names
    assert before.total_us > report.total_us  # nothing was divided, nothing lay in LX
    assert passes.CustomPreSchedulingPasses().last_cost_report is cost_model_pass.LAST_REPORT


def test_before_layouts_there_is_no_cost(monkeypatch):
    monkeypatch.setattr(
        passes.CustomPreLayoutPasses, "passes", [lambda g: cost_model_pass.cost_model_pass(g)]
    )
    with pytest.raises(Exception, match="no cost before layouts are chosen"):
        report_of(lambda x: x.exp() + 2, on_card(64, 64))


def test_every_thread_has_its_own():
    report_of(lambda x: x + 3, on_card(64, 64))
    found = []
    thread = threading.Thread(target=lambda: found.append(cost_model_pass.LAST_REPORT))
    thread.start()
    thread.join()
    assert found == [None] and cost_model_pass.LAST_REPORT is not None


def test_without_the_setting_there_is_none():
    with config.patch(cost_model="0"):
        assert cost_model_pass.cost_model_pass(None) is None
    with pytest.raises(AttributeError, match="has no attribute 'LAST'"):
        cost_model_pass.LAST  # noqa: B018
