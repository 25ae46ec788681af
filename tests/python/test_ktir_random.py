# SPDX-License-Identifier: Apache-2.0
"""Random KTIR kernels: interpreter and card against PyTorch's plain operators, number by number."""

import pytest
import torch
import torch_spyre
import torch_spyre.ktir as ktir
from ktir_programs import Program

REFUSED = ("iterations that cannot be", "at one time", "numbers handed on", "do not fit")


def check(seed: int) -> bool:
    """False where the card has no program of the kernel."""
    program = Program(seed)
    kernel = ktir.loads(program.text, f"kernel{seed}.mlir")
    assert str(ktir.loads(str(kernel))) == str(kernel)
    for interpret in (True, False):
        given = {
            name: value.clone() if isinstance(value, torch.Tensor) else value
            for name, value in program.given.items()
        }
        try:
            kernel.run(interpret=interpret, **given)
        except torch_spyre.Unsupported as error:
            assert not interpret and any(words in str(error) for words in REFUSED), str(error)
            return False
        for name, value in program.given.items():
            expected = program.expected.get(name, value)
            if isinstance(value, torch.Tensor):
                assert torch.equal(given[name].to(expected.dtype), expected), (seed, name)
    return True


def test_random_kernels() -> None:
    assert sum(check(seed) for seed in range(30)) > 25


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 3000, 50))
def test_more_random_kernels(first: int) -> None:
    for seed in range(first, first + 50):
        check(seed)
