# SPDX-License-Identifier: Apache-2.0
"""Operators whose results are as large as values say."""

import pytest
import torch
import torch_spyre
from torch_spyre.eager import data_dependent_sizes

X = torch.arange(4 * 6 * 10).reshape(4, 6, 10) * 7 % 9 - 4
MASK = X % 3 == 0
CASES = {
    "nonzero": lambda x, m: m.nonzero(),
    "nonzero of a vector": lambda x, m: m[0, 0].nonzero(),
    "nonzero of numbers": lambda x, m: x.nonzero(),
    "nonzero of a number": lambda x, m: x[0, 0, 0].nonzero(),
    "nonzero of 0": lambda x, m: (x[0, 0, 0] * 0).nonzero(),
    "none": lambda x, m: (m & False).nonzero(),
    "all": lambda x, m: (m | True).nonzero(),
    "where": lambda x, m: torch.cat(torch.where(m)),
    "argwhere": lambda x, m: m.argwhere(),
    "mask": lambda x, m: x[m],
    "mask of rows": lambda x, m: x[m[:, 0, 0]],
    "mask inside": lambda x, m: x[:, m[0, :, 0]],
    "masked_select": lambda x, m: x.masked_select(m),
    "masked_select, broadcast": lambda x, m: x.masked_select(m[0, 0]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64])
def test_what_is_counted(name, dtype):
    x, f = X.to(dtype), CASES[name]
    expected = f(x, MASK)
    for _again in range(3):  # of an equal call the program is known
        with torch_spyre.fallback("error"):
            actual = f(x.to("spyre"), MASK.to("spyre"))
        assert actual.dtype is expected.dtype and actual.device.type == "spyre"
        assert torch.equal(actual.cpu(), expected)
        assert actual.numel() == 0 or actual.stride() == expected.stride()


def test_masks_of_as_many_elements_choose_their_own():
    x = X.half().to("spyre")
    for shift in range(4):
        mask = MASK.roll(shift, 0)
        assert torch.equal(x[mask.to("spyre")].cpu(), X.half()[mask])


def test_beyond_the_card_is_the_hosts():
    long = torch.arange(data_dependent_sizes.MOST) % 3
    with pytest.raises(torch_spyre.FallbackError, match="nonzero"), torch_spyre.fallback("error"):
        long.to("spyre").nonzero()
    with torch_spyre.fallback("silent"):
        assert torch.equal(long.to("spyre").nonzero().cpu(), long.nonzero())


def test_constants_of_the_host_are_numbers():
    def scaled(x):
        scale = torch.sqrt(torch.tensor(x.size(-1), dtype=torch.float) * 3)
        return x / scale.to(dtype=x.dtype)

    torch._dynamo.reset()
    x = torch.ones(4, 48, dtype=torch.float16)
    result = torch.compile(scaled, fullgraph=True)(x.to("spyre"))
    report = torch_spyre.last_report()
    assert (report.segments, report.nodes_on_card, report.nodes_apart) == (1, 1, 0), report.text
    assert torch.allclose(result.cpu(), x / 12, rtol=2**-9)
