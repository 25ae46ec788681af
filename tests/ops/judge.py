# SPDX-License-Identifier: Apache-2.0
"""Runs one operator in one dtype and form, and gives the verdicts of its cases."""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from . import allowances, bounds, forms, placement, reference, samples, ties
from .rows import Row
from .samples import Sample


class Expected(NamedTuple):
    """What the CPU makes of a sample. `refusal` is its error, or None; `random` results have a
    shape and a dtype only."""

    sample: Sample
    leaves: list[Any]
    reference: list[Any]
    draws: list[list[Any]]
    random: bool
    refusal: Exception | None
    own_out: list[Any] = []  # what the CPU writes into out=
    others: list[list[Any]] = []  # right as well: allowances.OTHER_FORMS, reference.Special


def cases(op, dtype: str, form: str) -> list[Row]:
    """The rows of all classes of shapes; `dtype` is one of rows.DTYPES or, of errors, "-"."""
    if form == "errors":
        return [_error_case(op, error, dtype) for error in op.error_inputs("cpu")]
    given = choose(op, forms.dtype_of(dtype), form)
    prepared = [expect(op, form, sample) for sample in given]
    if form in forms.COMPILED:
        return _compiled_cases(op, dtype, form, prepared)
    return [_eager_case(op, dtype, form, one) for one in prepared]


def choose(op, dtype: torch.dtype, form: str) -> list[Sample]:
    """Small samples of the database and the first that becomes wide, of each class."""
    found = samples.of_database(op, dtype, form in forms.GRADIENT)
    if form == "in_place":  # self is never broadcast
        found = [sample for sample in found if not sample.grows]
    chosen = samples.spread(found, forms.SMALL[form])
    run = forms.function(op, eager_form(form))

    def accepted(sample: Sample) -> bool:
        try:
            run(_copy(sample))
        except Exception:  # whatever the CPU refuses
            return False
        return op.name not in allowances.OF_CHANNELS or _has_channels(sample)

    too_long = form == "compiled_backward" and op.name in allowances.TRACED_BY_COLUMN
    for shapes in () if too_long else samples.WIDE:
        for sample in samples.spread(found, 4):
            wide = samples.widened(sample, shapes, accepted)
            if wide is not None:
                chosen.append(wide)
                break
    return chosen


def _has_channels(sample: Sample) -> bool:
    return {t.shape[0] for t in sample.tensors() if t.dim() == 1} <= {sample.input.shape[1]}


def eager_form(form: str) -> str:
    return "eager" if form == "compiled" else form.removeprefix("compiled_")


def _copy(sample: Sample) -> Sample:
    """The same arguments in tensors of their own, strides kept."""

    def one(value):
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    return sample.with_values(pytree.tree_map(one, sample.values()))


def _seeded(function, sample: Sample, seed: int = 0) -> list:
    torch.default_generator.manual_seed(seed)  # torch.manual_seed() takes milliseconds
    random.seed(seed)
    return pytree.tree_leaves(function(sample))


def expect(op, form: str, sample: Sample) -> Expected:
    """The CPU's results in the dtype and in double precision."""
    run = forms.function(op, eager_form(form))
    sample = sample.with_values(pytree.tree_map(reference.held, _copy(sample).values()))
    try:
        leaves = own_out = _seeded(run, _copy(sample))
        if form == "out":  # some CPU kernels are at fault there
            run = forms.function(op, "out_values")
            leaves = _seeded(run, _copy(sample))
        again = _seeded(run, _copy(sample), seed=1)
    except Exception as error:  # the CPU's own refusal, of any class
        return Expected(sample, [], [], [], False, error)
    is_random = not all(_same(a, b) for a, b in zip(leaves, again, strict=True))
    exact, draws, others = _double(run, sample, leaves)
    if op.name in reference.MORE_EXACT:
        exact = [reference.MORE_EXACT[op.name](sample.input) for _leaf in leaves]
    if op.name in allowances.OTHER_FORMS:
        others += [_double(run, allowances.OTHER_FORMS[op.name](sample), leaves)[0]]
    is_random |= op.name in allowances.UNDEFINED or (
        form in forms.GRADIENT and _tells_nothing(leaves, exact)
    )
    return Expected(sample, leaves, exact, draws, is_random, None, own_out, others)


def _same(a, b) -> bool:
    if not isinstance(a, torch.Tensor) or a.layout != torch.strided:
        return True
    if a.is_complex():
        a, b = torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj())
    return a.shape == b.shape and torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))


def _tells_nothing(leaves: list, exact: list) -> bool:
    """Whether PyTorch's own kernels of 16 bits are off by more than a fifth of a gradient's norm:
    behind a softmax of numbers in the thousands each rounding picks another element."""
    for found, wanted in zip(leaves, exact, strict=True):
        if not isinstance(found, torch.Tensor) or found.layout != torch.strided:
            continue
        if found.dtype not in (torch.float16, torch.bfloat16):
            continue
        found, wanted = found.detach().double(), wanted.detach().double()
        finite = found.isfinite() & wanted.isfinite()
        if (found - wanted)[finite].norm() > 0.2 * wanted[finite].norm():
            return True
    return False


def _double(run, sample: Sample, leaves: list) -> tuple[list, list, list]:
    """Results in double precision, those for moved inputs, and those with the special values of
    the card; what the CPU gave where it has no such kernel."""
    tensors = [*sample.tensors(), *(t for t in leaves if isinstance(t, torch.Tensor))]
    dtypes = {t.dtype for t in tensors if t.dtype in bounds.UNIT}
    wide = sample.with_values(pytree.tree_map(reference.widen, sample.values()))
    torch.set_default_dtype(torch.float64)  # that of what integers become
    try:
        exact = _fitting(run, _copy(wide), leaves)
        if exact is None or not dtypes:
            return exact or leaves, [], []
        return exact, *_draws(run, wide, leaves, max(dtypes, key=bounds.UNIT.__getitem__))
    finally:
        torch.set_default_dtype(torch.float32)


def _fitting(run, sample: Sample, leaves: list) -> list | None:
    """The results of a sample; None outside of the operator's domain."""
    try:
        found = _seeded(run, sample)
    except Exception:  # of any class
        return None
    return found if len(found) == len(leaves) else None


def _draws(run, wide: Sample, leaves: list, dtype: torch.dtype) -> tuple[list, list]:
    """Results for moved inputs, and those with special values if any are on the way."""
    draws, special = [], False
    narrow = dtype != torch.float32
    for draw in range(reference.DRAWS):
        unit, limit = bounds.UNIT[dtype], bounds.LARGEST[dtype] if narrow else math.inf
        moved = wide.with_values(reference.moved(wide.values(), unit, draw))
        with reference.Rounding(unit, draw, limit) as rounding:
            draws.append(_fitting(run, moved, leaves))
        special |= rounding.leaves_range
    others = []
    if special:
        with reference.Special(dtype):
            others.append(_fitting(run, _copy(wide), leaves))
    return [d for d in draws if d is not None], [o for o in others if o is not None]


def _row(op, dtype: str, form: str, sample: Sample, verdict: str, **more) -> Row:
    return Row(op.formatted_name, dtype, form, sample.shapes, verdict, **more)


def _eager_case(op, dtype: str, form: str, expected: Expected) -> Row:
    run = forms.function(op, form)
    sample = expected.sample
    with placement.watched() as place:
        try:
            card = sample.with_values(forms.on_device(op, sample.values()))
            leaves = _seeded(run, card)
        except Exception as error:  # every class is a verdict
            return _refusal(op, dtype, form, expected, error)
        found = _compare(op.name, expected, leaves)
    return _finished(op, dtype, form, expected, place, found)


def _compiled_cases(op, dtype: str, form: str, prepared: list[Expected]) -> list[Row]:
    """All samples in one graph; one by one when that fails, so that the row says which."""
    usable = [one for one in prepared if one.refusal is None]
    rows = [_row(op, dtype, form, one.sample, "refused", why=_text(one.refusal))
            for one in prepared if one.refusal is not None]  # fmt: skip
    if len(usable) > 1:
        batch = _compiled_batch(op, dtype, form, usable)
        if all(row.verdict == "right" for row in batch):
            return rows + batch
    for one in usable:
        rows += _compiled_batch(op, dtype, form, [one])
    return rows


def _compiled_batch(op, dtype: str, form: str, batch: list[Expected]) -> list[Row]:
    with placement.watched() as place:
        try:
            cards = [e.sample.with_values(forms.on_device(op, e.sample.values())) for e in batch]
            results = forms.compiled(op, form, cards)
        except Exception as error:  # every class is a verdict
            alike = len(batch) == 1 and _compiler_refuses(op, form, batch[0].sample)
            return [_refusal(op, dtype, form, one, error, alike) for one in batch]
        found = [_compare(op.name, one, pytree.tree_leaves(result))
                 for one, result in zip(batch, results, strict=True)]  # fmt: skip
    return [_finished(op, dtype, form, one, place.of_sample(number), pair)
            for number, (one, pair) in enumerate(zip(batch, found, strict=True))]  # fmt: skip


def _compiler_refuses(op, form: str, sample: Sample) -> bool:
    """Whether PyTorch's own tracing of the operator on the CPU ends in an error."""
    try:
        forms.compiled(op, form, [_copy(sample)], backend="aot_eager")
    except Exception:  # of any class
        return True
    return False


def _refusal(op, dtype, form, expected: Expected, error: Exception, alike=False) -> Row:
    """The row of an error; `alike` when PyTorch's compiler has one on the CPU, too."""
    if isinstance(error, AssertionError) and "than self" in str(error):
        verdict = "wrong"
    else:
        verdict = "refused" if alike or expected.refusal is not None else "host only"
    return _row(op, dtype, form, expected.sample, verdict, why=_text(error),
                detail=expected.sample.describe())  # fmt: skip


def _finished(op, dtype, form, expected: Expected, place, found: tuple[float, str]) -> Row:
    worst, fault = found
    verdict, detail = "right", ""
    if fault:
        verdict, detail = "wrong", f"({expected.sample.describe()}): {fault}"
    error = 1e9 if math.isinf(worst) else round(worst, 3)
    return _row(op, dtype, form, expected.sample, verdict, place=place.name, why=place.why,
                error=error, detail=detail)  # fmt: skip


def _compare(op: str, expected: Expected, leaves: list) -> tuple[float, str]:
    """The largest error over all results and the first fault."""
    if expected.refusal is not None:
        return 0.0, ""  # nothing to compare with
    if len(leaves) != len(expected.leaves):
        return math.inf, f"{len(leaves)} results instead of {len(expected.leaves)}"
    worst = 0.0
    for index, actual in enumerate(leaves):
        wanted = expected.leaves[index]
        if op in allowances.STATISTICS and index > 0 and actual.dtype == torch.float32:
            actual = actual.to(wanted.dtype)
        if expected.random and isinstance(wanted, torch.Tensor):
            ratio, fault = bounds.kind_error(actual, wanted)
        else:
            exact, draws = expected.reference[index], [draw[index] for draw in expected.draws]
            others = [other[index] for other in expected.others]
            if op in allowances.UNORDERED:
                actual, wanted, exact, *draws = map(_ordered, (actual, wanted, exact, *draws))
            ratio, fault = bounds.error(
                actual, wanted, exact, draws, op in allowances.NORMWISE, others
            )
        if fault and _equal(actual, expected.own_out[index]):
            continue
        if fault and ties.same_elements(expected.sample, actual, wanted):
            continue
        if (
            fault
            and op in allowances.TIED
            and ties.moved_between_equals(expected.sample, actual, wanted)
        ):
            continue
        worst = max(worst, ratio)
        if fault:
            return worst, fault
    return worst, ""


def _ordered(values):
    """Complex numbers in the order of their real parts, then of their imaginary ones."""
    if not isinstance(values, torch.Tensor) or not values.is_complex():
        return values
    values = values.detach().cpu()
    values = values.gather(-1, values.imag.argsort(dim=-1, stable=True))
    return values.gather(-1, values.real.argsort(dim=-1, stable=True))


def _equal(actual, own) -> bool:
    """The same numbers as the CPU's, which may be at fault."""
    if not isinstance(actual, torch.Tensor) or not isinstance(own, torch.Tensor):
        return False
    return actual.dtype == own.dtype and torch.equal(actual.detach().cpu(), own.detach())


def _text(error: Exception | None) -> str:
    return placement.plain(f"{type(error).__name__}: {error}") if error is not None else ""


def _error_case(op, case, dtype: str) -> Row:
    """Bad arguments: the device raises an error of the class that the CPU raises."""
    sample = samples.from_database(case.sample_input)._replace(shapes="small")
    try:
        forms.call(op, _copy(sample))
        return _row(op, "-", "errors", sample, "right", detail="the CPU takes it")
    except Exception as error:  # the CPU's class is the rule
        wanted = error
    with placement.watched():
        try:
            card = sample.with_values(forms.on_device(op, sample.values()))
            forms.call(op, card)
            torch.spyre.synchronize()  # errors of a launch arrive here
        except Exception as error:
            if isinstance(error, type(wanted)) or isinstance(wanted, type(error)):
                return _row(op, "-", "errors", sample, "right")
            detail = f"({sample.describe()}): {_text(error)} instead of {_text(wanted)}"
            return _row(op, "-", "errors", sample, "accepted", detail=detail)
    detail = f"({sample.describe()}): a result instead of {_text(wanted)}"
    return _row(op, "-", "errors", sample, "accepted", detail=detail)
