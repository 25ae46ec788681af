# SPDX-License-Identifier: Apache-2.0
"""What is tried with each family, step by step, on the card and beside the reference."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch_spyre
from family import Family
from reference import UNITS, WORST, Accuracy, compare, condition, first_tensor
from torch_spyre.eager import run_on_cpu

NEW_TOKENS = 6
RATE = 1e-2  # of the training step


@dataclasses.dataclass
class Outcome:
    """One step of one family."""

    status: str  # "ok", "near tie", "wrong", "error"
    message: str = ""  # of a status that is not "ok"
    cosine: float | None = None
    error: float | None = None  # relative, root mean square
    bound: float | None = None
    host_ops: list[str] = dataclasses.field(default_factory=list)  # that the host computed
    nodes: int = 0  # of the compiled graphs
    host_nodes: int = 0  # of them, those that the card does not take


def outcome_of(accuracy: Accuracy) -> Outcome:
    status = "ok" if accuracy.holds else "wrong"
    message = "" if accuracy.holds else f"largest error {accuracy.largest:.3g}"
    return Outcome(status, message, accuracy.cosine, accuracy.error, accuracy.bound)


def _as_on_card(value):
    """A floating tensor with the values that the card holds for float16, in float32."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.float().to("spyre").half().cpu().float()  # rounded once
    return value


@torch.no_grad()
def _vary_statistics(model: torch.nn.Module) -> torch.nn.Module:
    """Gives batch norms the statistics of some data: those of a new model are 0 and 1, with which
    every layer would be wrong by the same rounding of one scale."""
    for layer in model.modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            layer.running_mean.normal_(0, 0.2)
            layer.running_var.uniform_(0.5, 1.5)
    return model


@torch.no_grad()
def _round_weights(model: torch.nn.Module) -> torch.nn.Module:
    """Gives the model, float32 on the CPU, the weights that the card holds."""
    for weight in model.state_dict().values():
        weight.copy_(_as_on_card(weight))
    return model


def _on_card(value, dtype: torch.dtype):
    if not isinstance(value, torch.Tensor):
        return value
    return (value.to(dtype) if value.is_floating_point() else value).to("spyre")


class Trial:
    """A family's model on the CPU and on the card in `dtype`, with equal weights and inputs."""

    def __init__(self, family: Family, dtype: torch.dtype = torch.float16):
        torch.manual_seed(0)
        self.family, self.dtype, self.unit = family, dtype, UNITS[dtype]
        self.model = _vary_statistics(family.make()).eval()
        self.inputs = family.inputs()
        if dtype is torch.float16:
            self.model = _round_weights(self.model.half().float())
            self.inputs = {name: _as_on_card(value) for name, value in self.inputs.items()}
        self.on_card = copy.deepcopy(self.model).to(dtype).to("spyre")
        self.card_inputs = {name: _on_card(value, dtype) for name, value in self.inputs.items()}
        with torch.no_grad():
            self.expected = first_tensor(self.model(**self.inputs)).float()
            self.condition = condition(
                self.model, lambda: first_tensor(self.model(**self.inputs)).float(), self.unit
            )
        _demand_meaning(self.condition, "results")

    # ---- inference

    def eager(self) -> Outcome:
        with torch.no_grad():
            return self._check(first_tensor(self.on_card(**self.card_inputs)))

    def compiled(self) -> Outcome:
        with torch.no_grad():
            return self._check(first_tensor(torch.compile(self.on_card)(**self.card_inputs)))

    def _check(self, actual: torch.Tensor) -> Outcome:
        return outcome_of(compare(actual, self.expected, self.condition, self.unit))

    # ---- generation

    def generate(self) -> Outcome:
        return self._generate(self.on_card, {})

    def generate_static(self) -> Outcome:
        """Compiled, as transformers documents it for caches of fixed size."""
        model = copy.copy(self.on_card)
        model.forward = torch.compile(self.on_card.forward)
        return self._generate(model, {"cache_implementation": "static"})

    def _generate(self, model, options: dict) -> Outcome:
        def greedy(of, inputs):
            given = {k: v for k, v in inputs.items() if not k.startswith("decoder_")}
            return of.generate(
                **given, **options, do_sample=False, max_new_tokens=NEW_TOKENS,
                min_new_tokens=NEW_TOKENS, output_scores=True, return_dict_in_generate=True,
            )  # fmt: skip

        with torch.no_grad():
            expected = greedy(self.model, self.inputs)
            actual = greedy(model, self.card_inputs).sequences.cpu()
        return self._compare_tokens(actual, expected)

    def _compare_tokens(self, actual: torch.Tensor, expected) -> Outcome:
        """Equal tokens; or each row parts from the reference where two tokens score alike."""
        wanted, scores = expected.sequences, expected.scores
        if actual.shape != wanted.shape:
            return Outcome("wrong", f"{tuple(actual.shape)} tokens, {tuple(wanted.shape)} expected")
        start = wanted.shape[1] - len(scores)
        ties = []
        for row, (ours, theirs) in enumerate(zip(actual.tolist(), wanted.tolist(), strict=True)):
            at = next((i for i, pair in enumerate(zip(ours, theirs, strict=True))
                       if pair[0] != pair[1]), None)  # fmt: skip
            if at is None:
                continue
            step = scores[at - start][row].float()
            spread = step[step.isfinite()].double().pow(2).mean().sqrt().item()
            gap = (step[theirs[at]] - step[ours[at]]).item()
            allowed = 2 * compare(step, step, self.condition, self.unit).bound * spread
            ties.append(f"row {row}, token {at - start}: scores {gap:.2g} apart, {allowed:.2g} "
                        "is within rounding")  # fmt: skip
            if not gap <= allowed:
                return Outcome("wrong", ties[-1])
        return Outcome("near tie", "; ".join(ties)) if ties else Outcome("ok")

    # ---- training

    def train(self) -> Outcome:
        return self._train(lambda model: model)

    def train_compiled(self) -> Outcome:
        return self._train(torch.compile)

    def _train(self, wrap: Callable) -> Outcome:
        """Loss, gradients and the loss after a step of SGD, beside the reference."""
        reference = copy.deepcopy(self.model).train()
        model = copy.deepcopy(reference).to(self.dtype).to("spyre")

        def gradients():
            reference.zero_grad()
            self._loss(reference, self.inputs).backward()
            return _flat_gradients(reference)

        effect = condition(reference, gradients, self.unit)
        _demand_meaning(effect, "gradients")
        expected = gradients()
        optimizer = torch.optim.SGD(model.parameters(), RATE)
        called = wrap(model)
        self._loss(called, self.card_inputs).backward()
        outcome = outcome_of(compare(_flat_gradients(model), expected, effect, self.unit))
        optimizer.step()
        torch.optim.SGD(reference.parameters(), RATE).step()
        if self.dtype is torch.float16:
            _round_weights(reference)  # a small change rounds away
        with torch.no_grad():
            terms = self._terms(reference, self.inputs)
            wanted, size = terms.mean().item(), terms.abs().mean().item()
            after = self._loss(called, self.card_inputs).item()
        if not abs(after - wanted) <= max(outcome.bound or 0.0, 0.01) * max(size, 0.1):
            return dataclasses.replace(
                outcome, status="wrong", message=f"loss {after} after a step, expected {wanted}"
            )
        return outcome

    def _loss(self, model, inputs: dict) -> torch.Tensor:
        return self._terms(model, inputs).mean()

    def _terms(self, model, inputs: dict) -> torch.Tensor:
        """What the loss is the mean of: it may be much smaller than they are."""
        if self.family.labels:
            return model(**inputs, labels=inputs[self.family.labels]).loss
        result = first_tensor(model(**inputs)).float()
        weights = torch.randint(-8, 9, result.shape, generator=torch.Generator().manual_seed(1)) / 8
        return result * weights.to(result.device)

    # ---- files

    def save(self) -> Outcome:
        """From the card to files and back: same values, and of a state the same layouts."""
        with tempfile.TemporaryDirectory() as directory:
            self.on_card.save_pretrained(directory)
            loaded = type(self.on_card).from_pretrained(directory, dtype=self.dtype).to("spyre")
            # A parameter of the model that ran lies as products read it; a new one does not yet.
            fault = _difference(self.on_card.state_dict(), loaded.state_dict(), layouts=False)
            path = Path(directory) / "state.pt"
            torch.save(self.on_card.state_dict(), path)
            state = torch.load(path, weights_only=True)
            fault = fault or _difference(self.on_card.state_dict(), state)
            loaded.load_state_dict(state)
        return Outcome("wrong", fault) if fault else Outcome("ok")


def _demand_meaning(effect: float, what: str) -> None:
    if not effect <= WORST:
        raise ValueError(f"rounding alone moves the {what} by {effect:.2g}: nothing can be checked")


def _flat_gradients(model: torch.nn.Module) -> torch.Tensor:
    """All gradients, float32 [n] on the CPU; a parameter without one has zeros."""
    parts = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in model.parameters()]
    return torch.cat([part.detach().cpu().float().flatten() for part in parts])


def _difference(wanted: dict, got: dict, layouts: bool = True) -> str:
    """What differs between two states of a model on the card; "" when nothing does."""
    if list(wanted) != list(got):
        return f"other names: {sorted(set(wanted) ^ set(got))[:3]}"
    for name, tensor in wanted.items():
        other = got[name]
        if other.device.type != "spyre":
            return f"{name} is on {other.device}"
        if not torch.equal(tensor.cpu(), other.cpu()):
            return f"{name} has other values"
        differ = str(tensor.device_tensor_layout()) != str(other.device_tensor_layout())
        if layouts and differ:
            return f"{name} has another layout"
    return ""


def names(family: Family) -> list[str]:
    """The steps that a family has."""
    steps = ["eager", "compiled"]
    if family.generates:
        steps += ["generate", *(["generate_static"] if family.static_cache else [])]
    return [*steps, *(["train", "train_compiled"] if family.trains else []), "save"]


def run(
    family: Family, done: Callable[[str, Outcome], None], steps=None, dtype=torch.float16
) -> None:
    """Tries the steps that the family has (or those among `steps`); calls done(step, outcome)."""
    trial = Trial(family, dtype)
    for name in names(family):
        if steps is None or name in steps:
            torch._dynamo.reset()
            done(name, _observed(getattr(trial, name)))


def _observed(step: Callable[[], Outcome]) -> Outcome:
    """The outcome of a step, with the operators that ran on the host."""
    _forget_warnings()
    before = {id(report) for report in torch_spyre.compile_reports()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", torch_spyre.FallbackWarning)
        try:
            outcome = step()
        except Exception as error:  # the table says what a family raises
            text = str(error).strip().splitlines() or [""]
            outcome = Outcome("error", f"{type(error).__name__}: {text[0]}"[:300])
    outcome.host_ops = _host_ops(caught)
    for report in torch_spyre.compile_reports():
        if id(report) not in before:
            outcome.nodes += report.nodes_on_card + report.nodes_on_host
            outcome.host_nodes += report.nodes_on_host
    return outcome


def _forget_warnings() -> None:
    """An operator warns once; each step counts for itself."""
    if hasattr(torch_spyre, "reset_fallback_report"):
        torch_spyre.reset_fallback_report()
    else:
        run_on_cpu._warned.clear()


def _host_ops(caught: list[warnings.WarningMessage]) -> list[str]:
    if hasattr(torch_spyre, "fallback_report"):
        return sorted(r.op for r in torch_spyre.fallback_report() if r.is_fallback)
    warned = [str(w.message) for w in caught if issubclass(w.category, torch_spyre.FallbackWarning)]
    return sorted({text.removeprefix("spyre: ").split(" ")[0] for text in warned})
