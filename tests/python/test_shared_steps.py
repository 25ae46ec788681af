# SPDX-License-Identifier: Apache-2.0
"""Steps of a served model in memory that the processes of a server share."""

import pytest
from torch_spyre.sendnn import recording
from torch_spyre.sendnn.shared_steps import RING, SharedSteps


@pytest.fixture
def shared():
    return SharedSteps.create()


def test_card_time_between_two_moments(shared):
    steps, path = shared
    reader = SharedSteps.open(path)
    assert reader.card_seconds(0, 100) == 0
    for end, card in ((10, 0.5), (20, 0.25), (30, 1.0)):
        steps.add("prompt" if card == 1 else "decode", end, 2.0, card)
    assert reader.card_seconds(0, 100) == 1.75
    assert reader.card_seconds(10, 20) == 0.25  # a step belongs to the moment at which it ends
    assert reader.card_seconds(9.9, 10) == 0.5
    assert reader.card_seconds(21, 29) == reader.card_seconds(31, 90) == 0
    assert [reader[f"{total}:decode"] for total in ("steps", "host_seconds", "card_seconds")] == [
        2, 4.0, 0.75
    ]  # fmt: skip


def test_steps_beyond_the_ring_are_forgotten(shared):
    steps, _ = shared
    for number in range(RING + 10):
        steps.add("decode", number, 0, 1)
    assert steps["steps"] == steps["card_seconds:decode"] == RING + 10
    assert steps.card_seconds(RING - 5, RING + 5) == 10
    assert steps.card_seconds(10, RING + 9) == RING - 1
    assert steps.card_seconds(-1, RING + 9) == RING - 1


def test_one_process_writes(shared, run_python):
    _, path = shared
    run_python(f"""
from torch_spyre.sendnn.shared_steps import SharedSteps
writer = SharedSteps.open({path!r}, to_write=True)
writer.add("decode", 1.0, 0.5, 0.25)
assert SharedSteps.open({path!r}, to_write=True) is None
assert SharedSteps.open({path!r}).card_seconds(0, 2) == 0.25
""")
    assert SharedSteps.open(path)["card_seconds:decode"] == 0.25


def test_what_is_no_such_memory_says_so(tmp_path):
    with pytest.raises(RuntimeError, match="none: No such file"):
        SharedSteps.open(str(tmp_path / "none"))
    (tmp_path / "short").write_bytes(b"12")
    with pytest.raises(RuntimeError, match=r"short: 2 bytes, expected \d+"):
        SharedSteps.open(str(tmp_path / "short"))


def test_a_graph_of_the_backend_is_recorded(shared, monkeypatch):
    import torch

    steps, path = shared
    monkeypatch.setenv(recording.SHARED, path)
    monkeypatch.setattr(recording, "_recorder", None)
    model = torch.nn.Linear(64, 128).half().requires_grad_(False)
    torch.compile(model, backend="sendnn")(torch.ones(3, 64).half())
    assert steps["steps:graph"] == 1 and steps["card_seconds:graph"] > 0 < steps["programs"]
    assert steps["bytes:parameters"] >= 2 * (64 * 128 + 128) and steps["bytes:kv_cache"] == 0
    assert steps["bytes:free"] > 0 <= steps["bytes:other"]
