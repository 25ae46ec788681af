# SPDX-License-Identifier: Apache-2.0
"""The quick part of the model net: some families, and that the net sees what is wrong."""

import json

import families
import page
import pytest
import reference
import run
import steps
import torch
import torch_spyre

QUICK = {
    "bert": ("eager", "compiled"),
    "llama": ("eager", "generate", "train"),
    "t5": ("eager", "generate"),
    "vit": ("eager", "train"),
    "wav2vec2": ("eager",),
    "clip": ("eager",),
}


@pytest.mark.parametrize("name", QUICK)
def test_family(name):
    outcomes = {}
    steps.run(families.FAMILIES[name], outcomes.__setitem__, QUICK[name])
    assert set(outcomes) == set(QUICK[name])
    bad = {step: o for step, o in outcomes.items() if o.status not in run.GOOD}
    assert not bad
    inference = [outcome for step, outcome in outcomes.items() if step != "train"]
    assert [outcome.host_ops for outcome in inference] == [[]] * len(inference)


FLOAT32 = ("gpt2", "t5", "siglip_vision_model", "resnet")  # in `make test`


@pytest.mark.parametrize(
    "name",
    [name if name in FLOAT32 else pytest.param(name, marks=pytest.mark.long)
     for name in families.FAMILIES],
)  # fmt: skip
def test_float32_of_the_extended_profile(name):
    outcomes, wanted = {}, ("eager", "compiled")
    with torch_spyre.config.patch(profile="extended"):
        steps.run(families.FAMILIES[name], outcomes.__setitem__, wanted, torch.float32)
    assert {step: o.status for step, o in outcomes.items()} == {"eager": "ok", "compiled": "ok"}
    assert not any(outcome.host_ops or outcome.host_nodes for outcome in outcomes.values())


def test_there_are_families_of_every_group():
    groups = [family.group for family in families.FAMILIES.values()]
    assert len(groups) >= 40
    assert min(groups.count(group) for group in set(groups)) >= 4 and len(set(groups)) == 6


def test_page_is_that_of_the_table():
    table = json.loads(page.TABLE.read_text())
    assert set(table["families"]) <= set(families.FAMILIES)
    assert page.PAGE.read_text() == page.render(table), "SPYRE_BLESS=1 make test-models"


class TwoLinears(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(64, 64) for _ in range(2)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x


def test_an_error_beyond_rounding_is_wrong():
    torch.manual_seed(0)
    model, x = TwoLinears(), torch.randn(8, 64)
    with torch.no_grad():
        expected = model(x)
        effect = reference.condition(model, lambda: model(x))
    assert 0 < effect < 0.01
    rounded = expected * (1 + reference.UNIT * (torch.rand_like(expected) * 2 - 1))
    assert steps.outcome_of(reference.compare(rounded, expected, effect)).status == "ok"
    for wrong in (expected.roll(1, 0), expected * 1.05, expected * torch.nan):
        assert steps.outcome_of(reference.compare(wrong, expected, effect)).status == "wrong"


def test_tokens_may_part_at_a_tie_only():
    trial = steps.Trial.__new__(steps.Trial)
    trial.condition, trial.unit = 1e-3, reference.UNIT
    scores = torch.tensor([[1.0, 1.0005, -3.0], [1.0, 2.0, -3.0]])

    class Expected:
        sequences = torch.tensor([[5, 1], [5, 1]])

    Expected.scores = [scores]
    compare = trial._compare_tokens
    assert compare(torch.tensor([[5, 1], [5, 1]]), Expected).status == "ok"
    assert compare(torch.tensor([[5, 0], [5, 1]]), Expected).status == "near tie"
    assert compare(torch.tensor([[5, 1], [5, 0]]), Expected).status == "wrong"
    assert compare(torch.tensor([[5, 1, 1], [5, 1, 1]]), Expected).status == "wrong"


def test_a_step_that_gets_worse_is_told():
    good = {"a": {"steps": {"eager": {"status": "ok"}, "train": {"status": "error"}}}}
    bad = {"a": {"steps": {"eager": {"status": "wrong", "message": "m"}}}}
    assert run.regressions(good, bad) == ["a: eager: wrong m"]
    assert run.regressions(good, {}) == ["a: eager: missing"]
    assert run.regressions(good, good) == []
