# SPDX-License-Identifier: Apache-2.0
"""Tensors whose memory lies in several chunks, and pinned memory of the host."""

import mmap

import pytest
import torch

PAGE = mmap.PAGESIZE
# Chunks of 1 to 3 pages; rows that are a stick each, so that a boundary is between any two.
SIZES = [(7 * PAGE // 128, 64), (20 * PAGE // 128 + 3, 64), (40, 300), (5, 7, 400)]


def interleaved(host: torch.Tensor, domains=True) -> torch.Tensor:
    with torch.spyre.AllocationDirective(interleave=domains):
        return host.to("spyre")


def test_chunks_of_a_tensor():
    host = torch.randn(7 * PAGE // 128, 64, dtype=torch.float16)
    x = interleaved(host)
    address = torch.spyre.composite_address(x)
    assert [chunk.domain for chunk in address.chunks()] == list(range(7))
    assert [chunk.size for chunk in address] == [PAGE] * 7
    assert address.total_size() == host.nbytes
    assert all(chunk.addr.offset % 128 == 0 for chunk in address)
    part = interleaved(host, (2, 5))
    assert [chunk.domain for chunk in torch.spyre.composite_address(part[3:])] == [2, 5]
    with torch.spyre.AllocationDirective(bind=4):
        bound = host.to("spyre")
        with torch.spyre.AllocationDirective():
            anywhere = host.to("spyre")
        assert torch.spyre.composite_address(host.to("spyre"))[0].domain == 4
    assert [chunk.addr.region_id for chunk in torch.spyre.composite_address(bound)] == [4]
    assert len(torch.spyre.composite_address(anywhere)) == 1
    before = torch.spyre.memory_domains()[6]
    del x, address
    assert torch.spyre.memory_domains()[6] > before


@pytest.mark.parametrize("size", SIZES)
def test_a_composite_tensor_is_as_any_other(size):
    torch.manual_seed(3)
    host = torch.randn(size, dtype=torch.float16)
    plain, x = host.to("spyre"), interleaved(host)
    assert len(torch.spyre.composite_address(x)) > 1
    assert x.cpu().equal(plain.cpu())
    step = max(1, size[0] // 9)
    for first in range(0, size[0] - 1, step):  # views across boundaries, read and written
        assert x[first : first + 2].cpu().equal(plain[first : first + 2].cpu())
        x[first : first + 2] += 1
        plain[first : first + 2] += 1
    assert x.cpu().equal(plain.cpu())
    assert x.transpose(0, 1).contiguous().cpu().equal(plain.transpose(0, 1).contiguous().cpu())

    def rows(a, b):
        return torch.softmax(a * 2 + b, -1), a.sum(0)

    compiled = torch.compile(rows)
    with torch.spyre.AllocationDirective(interleave=True):
        results = compiled(x, x)
    for ours, other in zip(results, compiled(plain, plain), strict=True):
        assert ours.cpu().equal(other.cpu())
    flat = host.reshape(-1, size[-1])
    other = flat.to("spyre")
    assert (interleaved(flat) @ interleaved(flat).T).cpu().equal((other @ other.T).cpu())


def test_directives_that_are_wrong():
    for arguments, text in [
        ({"bind": 7}, "memory domain 7: expected 0 to 6"),
        ({"bind": -1}, "memory domain -1: expected 0 to 6"),
        ({"interleave": [0, 9]}, "memory domain 9: expected 0 to 6"),
        ({"interleave": []}, "expected True or memory domains"),
        ({"bind": 1, "interleave": True}, "one chunk or in several"),
    ]:
        with pytest.raises(ValueError, match=text):
            torch.spyre.AllocationDirective(**arguments)
    with pytest.raises(ValueError, match="on the card"):
        torch.spyre.composite_address(torch.zeros(3))
    held = []
    with (
        pytest.raises(torch.OutOfMemoryError, match="in domain 3"),
        torch.spyre.AllocationDirective(bind=3),
    ):
        for _ in range(5):
            held.append(torch.empty(2**31, dtype=torch.float16, device="spyre"))
    assert len(held) >= 3


def test_kinds_of_card_read_regions_their_way(run_python):
    program = (
        "import torch\n"
        "with torch.spyre.AllocationDirective(interleave=True):\n"
        "    x = torch.arange(40000, dtype=torch.float16).remainder(99).to('spyre')\n"
        "print([c.addr.region_id for c in torch.spyre.composite_address(x)][:3],\n"
        "      (x * 3).sum().item(), x[20000].item())\n"
    )
    found = {kind: run_python(program, FLEX_DEVICE=kind).stdout for kind in ("PF", "VF", "MOCK")}
    assert found["VF"] == found["MOCK"]
    assert found["VF"].startswith("[0, 1, 2] ")
    assert found["PF"] == found["VF"].replace("[0, 1, 2]", f"[0, {2**34}, {2**35}]")


def test_pinned_memory_is_locked_pages():
    before = torch.randn(100, 60)
    pinned = before.pin_memory()
    assert pinned.is_pinned() and pinned[3:].is_pinned() and not before.is_pinned()
    assert pinned.data_ptr() % PAGE == 0
    assert pinned.equal(before)
    assert pinned.pin_memory().data_ptr() == pinned.data_ptr()
    assert pinned.to("spyre", non_blocking=True).cpu().equal(before)
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert torch.empty(0, pin_memory=True).numel() == 0
    place = pinned.data_ptr()
    del pinned
    assert torch.empty(100, 60, pin_memory=True).data_ptr() == place  # the block serves again
    card = before.to("spyre")
    assert not card.is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        card.pin_memory()
