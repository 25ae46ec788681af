# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's databases of operators and modules call with wrong arguments: the error is of the
class that PyTorch raises, and the device works afterwards."""

import pytest
import torch
import torch_spyre
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

OPERATORS = {
    f"{op.name}.{op.variant_test_name}".strip("."): op for op in op_db if op.error_inputs_func
}
MODULES = {info.name: info for info in module_db if info.module_error_inputs_func}

# Arguments of the CPU that are wrong there alone, or of another kind on the card.
OF_THE_CPU = (
    "single memory location",  # copies on the card share none
    "devices cpu and meta",
    "up to 64 dims",  # the card refuses the tensor itself
)

# Arguments of the card that PyTorch's kernels for the CPU take or refuse by another class.
AS_ON_THE_CPU = {"clamp_max", "clamp_min", "__rmod__", "__rpow__", "__rsub__", "narrow_copy"}


def card(values):
    return pytree.tree_map(lambda v: v.to("spyre") if isinstance(v, torch.Tensor) else v, values)


def raised(call):
    """The error, or None, of a call that is waited for."""
    with torch_spyre.fallback("silent"):
        try:
            call()
            torch.spyre.synchronize()
        except Exception as error:
            return error
    return None


@pytest.fixture(autouse=True)
def device_works_afterwards():
    yield
    assert (torch.ones(3, device="spyre") + 1).cpu().tolist() == [2, 2, 2]


def call_of(op, sample, place=lambda v: v):
    return lambda: op.op(place(sample.input), *place(sample.args), **place(sample.kwargs))


@pytest.mark.long
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_refuse_as_on_the_cpu(name):
    op = OPERATORS[name]
    for wrong in op.error_inputs("cpu"):
        sample = wrong.sample_input
        expected = raised(call_of(op, sample))
        if expected is None or any(words in str(expected) for words in OF_THE_CPU):
            continue
        found = raised(call_of(op, sample, card))
        assert isinstance(found, type(expected)), (expected, found)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in AS_ON_THE_CPU])
def test_operators_refuse_what_is_wrong_on_devices(name):
    op = OPERATORS[name]
    samples = op.error_inputs("spyre")
    while True:
        try:
            wrong = next(samples, None)
        except RuntimeError as refusal:  # more dims than a tensor of the card has
            assert "rank" in str(refusal), refusal
            return
        if wrong is None:
            return
        found = raised(call_of(op, wrong.sample_input))
        assert isinstance(found, wrong.error_type), (wrong.error_regex, found)


def call_of_module(info, wrong, training, device):
    made, given = wrong.module_error_input.constructor_input, wrong.module_error_input.forward_input

    def call():
        module = info.module_cls(*made.args, **made.kwargs).to(device).train(training)
        if given is not None:
            module(*given.args, **given.kwargs)

    return call


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MODULES)
def test_modules_refuse(name, training):
    info = MODULES[name]
    options = {"dtype": torch.float32, "requires_grad": False, "training": training}
    wrong_on = {
        device: list(info.module_error_inputs_func(info, device=device, **options))
        for device in ("cpu", "spyre")
    }
    of_both = wrong_on["cpu"][-len(wrong_on["spyre"]) :]  # the CPU's own come first
    for of_cpu, wrong in zip(of_both, wrong_on["spyre"], strict=True):
        expected = raised(call_of_module(info, of_cpu, training, "cpu"))
        found = raised(call_of_module(info, wrong, training, "spyre"))
        assert type(found) is type(expected), (wrong.error_regex, expected, found)


def test_a_refusal_is_not_logged_besides(caplog):
    """The decomposition that PyTorch traces for a program refuses first."""
    op = OPERATORS["nn.functional.soft_margin_loss"]
    for wrong in op.error_inputs("spyre"):
        raised(call_of(op, wrong.sample_input))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_refusal_at_another_length_is_not_logged_besides(caplog):
    """From the second length on an operator is traced with a symbol in its place."""
    for length in (64, 72, 80):
        x = torch.ones(length, 64).half().to("spyre")
        if length == 64:
            torch.addmm(x, x, x)
            continue
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            torch.addmm(x, x, x)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_rows_to_add_are_not_broadcast():
    x, index = torch.ones(3, 2).to("spyre"), torch.tensor([0, 1], device="spyre")
    for rows in (torch.ones(2), torch.ones(2, 3), torch.ones(2, 1)):
        with pytest.raises(RuntimeError, match="source tensor shape must match self tensor shape"):
            x.index_add(0, index, rows.to("spyre"))
