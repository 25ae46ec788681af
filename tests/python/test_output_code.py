# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's tools see of the code of a compiled graph."""

import logging

import regex as re
import torch
from torch._inductor.utils import run_and_get_code
from torch.testing import FileCheck
from torch_spyre import config
from torch_spyre._inductor.logging_utils import get_inductor_logger


def slices(source):
    """The product of all slices of the first iteration space."""
    space = re.search(r"iteration_space=\{([^}]*)\}", source).group(1)
    product = 1
    for factor in re.findall(r"sympify\('\d+'\), (\d+)\)", space):
        product *= int(factor)
    return product


def test_code_is_collected():
    x = torch.randn(256, 64, 128, dtype=torch.float16)
    result, (code,) = run_and_get_code(torch.compile(torch.abs), x.to("spyre"))
    torch.testing.assert_close(result.cpu(), x.abs(), atol=0.01, rtol=0.01)
    FileCheck().check("sdsc_fused_abs").check(".run(").run(code)
    assert slices(code) == 32


@config.patch({"sencores": 16})
def test_code_has_as_many_slices_as_there_are_cores():
    x = torch.randn(256, 64, 128, dtype=torch.float16, device="cpu").to("spyre")
    _, (code,) = run_and_get_code(torch.compile(torch.neg), x)
    assert slices(code) == 16


def test_loggers_of_passes_have_the_names_of_the_package():
    logger = get_inductor_logger("mine")
    assert logger.name == "spyre.inductor.mine"
    assert logger.parent is logging.getLogger("spyre.inductor")
