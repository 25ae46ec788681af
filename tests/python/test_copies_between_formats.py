# SPDX-License-Identifier: Apache-2.0
"""`copy_` on one card converts as `.to` does: once, without the host."""

import pytest
import torch
import torch_spyre

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
PAIRS = [(torch.float32, torch.float16), (torch.float16, torch.float32),
         (torch.float32, torch.bfloat16), (torch.bfloat16, torch.bfloat16)]  # fmt: skip
# The part that is written, and what is read, of x: (6, 130) and (130, 6) or less.
TARGETS = {
    "whole": lambda z: z,
    "rows": lambda z: z[1:-1],
    "columns": lambda z: z[:, 3:77],
    "transposed": lambda z: z.t(),
    "one row": lambda z: z[2],
    "stepped": lambda z: z[:, ::3],
}
SOURCES = {
    "alike": lambda z: torch.randn(z.shape),
    "transposed": lambda z: torch.randn(z.shape[::-1]).permute(*range(z.dim() - 1, -1, -1)),
    "stepped": lambda z: torch.randn(*z.shape, 2)[..., 1],
    "repeated": lambda z: torch.randn(z.shape[-1:]),
    "one number": lambda z: torch.randn(()),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_a_copy_is_the_converted_source(pair, target, source):
    of, to = pair
    z = torch.randn(6, 130).to(to).to("spyre")
    part = TARGETS[target]
    x = SOURCES[source](part(z))
    on_card = torch.empty_strided(x.shape, x.stride(), dtype=of, device="spyre")
    on_card.copy_(x.to(of))
    wanted = z.cpu()
    part(wanted).copy_(on_card.contiguous().to(to).cpu())
    found = part(z).copy_(on_card)
    assert found.data_ptr() == part(z).data_ptr()
    assert torch.equal(z.cpu(), wanted)


@pytest.mark.parametrize("to", FLOATS)
def test_a_copy_of_the_tensor_itself_turned(to):
    z = torch.randn(64, 64).to(to).to("spyre")
    wanted = z.cpu().t().contiguous()
    z.copy_(z.t())
    assert torch.equal(z.cpu(), wanted)


def test_what_does_not_broadcast_is_refused():
    z = torch.zeros(6, 130, dtype=torch.float16, device="spyre")
    for x in (torch.ones(5, 130), torch.ones(2, 6, 130), torch.ones(131)):
        for dtype in FLOATS:
            with pytest.raises(RuntimeError):
                z.copy_(x.to("spyre", dtype))
    assert not z.any().item()


def test_a_copy_keeps_the_gradient():
    x = torch.randn(6, 130, device="spyre", requires_grad=True)
    z = torch.zeros(6, 130, dtype=torch.float16, device="spyre").copy_(x)
    z.backward(torch.full_like(z, 0.5))
    assert torch.equal(x.grad.cpu(), torch.full((6, 130), 0.5))


def test_copies_of_growing_lengths_share_programs():
    def built():
        statistics = torch_spyre.compile_statistics()
        return sum(statistics[name] for name in ("compilations", "memory_hits", "disk_hits"))

    before = built()
    for rows in range(41, 80):
        x = torch.randn(rows, 65, device="spyre")
        z = torch.empty(rows, 65, dtype=torch.float16, device="spyre").copy_(x)
        assert torch.equal(z.cpu(), x.half().cpu())
    assert built() - before < 12
