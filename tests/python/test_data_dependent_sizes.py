# SPDX-License-Identifier: Apache-2.0
"""Operators whose results are as large as values say."""

import pytest
import torch
import torch_spyre

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
    "repeat_interleave": lambda x, m: torch.repeat_interleave(m[0, 0].long() * 3),
    "rows repeated": lambda x, m: x.repeat_interleave(m[:, 0, 0].long() + 1, 0),
    "rows repeated, of known number": lambda x, m: x[:2].repeat_interleave(
        m[0, 0, :2].long() * 0 + 2, 0, output_size=4
    ),
    "unlike neighbours": lambda x, m: torch.unique_consecutive(x // 3),
    "unlike rows": lambda x, m: torch.unique_consecutive(x // 9, dim=1),
    "how many are alike": lambda x, m: torch.cat(
        torch.unique_consecutive(m.long(), return_inverse=True, return_counts=True)[2:]
    ),
    "who is alike": lambda x, m: torch.unique_consecutive(x // 3, return_inverse=True)[1],
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


def test_what_the_host_reads_is_in_the_report():
    flags = torch.arange(1 << 18) % 3 == 0
    torch_spyre.reset_fallback_report()
    with torch_spyre.fallback("error"):
        assert torch.equal(flags.to("spyre").nonzero().cpu(), flags.nonzero())
    (record,) = torch_spyre.fallback_report()
    assert (record.op, record.is_fallback) == ("aten.nonzero.default", False)
    assert record.bytes_to_host == flags.nbytes and record.bytes_to_card == flags.nonzero().nbytes


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
