# SPDX-License-Identifier: Apache-2.0
"""Memory statistics of torch.spyre."""

import gc
import os

import pytest
import torch

MIB = 1 << 20


@pytest.fixture(autouse=True)
def quiet():
    gc.collect()
    torch.spyre.synchronize()
    torch.spyre.empty_cache()
    torch.spyre.reset_peak_memory_stats()
    torch.spyre.reset_accumulated_memory_stats()


def fresh(mebibytes):
    return torch.empty(mebibytes * MIB // 2, dtype=torch.float16, device="spyre")


def test_allocated_and_peak():
    before = torch.spyre.memory_allocated()
    x = fresh(10)
    assert torch.spyre.memory_allocated() == before + 10 * MIB
    y = fresh(6)
    del x, y
    assert torch.spyre.memory_allocated() == before
    assert torch.spyre.max_memory_allocated() == before + 16 * MIB
    torch.spyre.reset_peak_memory_stats()
    assert torch.spyre.max_memory_allocated() == before


def test_freed_memory_stays_reserved_until_the_cache_is_emptied():
    reserved = torch.spyre.memory_reserved()
    x = fresh(32)
    assert torch.spyre.memory_reserved() >= reserved + 30 * MIB
    del x
    kept = torch.spyre.memory_reserved()
    assert kept >= reserved + 30 * MIB
    x = fresh(32)
    assert torch.spyre.memory_reserved() == kept
    del x
    torch.spyre.empty_cache()
    assert torch.spyre.memory_reserved() == reserved
    assert torch.spyre.max_memory_reserved() == kept


def test_totals_and_counts():
    tensors = [fresh(1) for _ in range(5)]
    del tensors
    stats = torch.spyre.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 5
    assert stats["allocated_bytes.all.allocated"] == 5 * MIB
    assert stats["allocated_bytes.all.freed"] == 5 * MIB
    assert stats["allocation.all.peak"] - stats["allocation.all.current"] == 5
    torch.spyre.reset_accumulated_memory_stats()
    assert torch.spyre.memory_stats()["allocation.all.allocated"] == 0


def test_results_reuse_the_memory_of_the_last_round():
    x = fresh(8)
    for _ in range(3):
        x + 1
    torch.spyre.synchronize()
    reserved = torch.spyre.memory_reserved()
    for _ in range(20):
        x + 1
    assert torch.spyre.memory_reserved() == reserved


def test_summary_and_info():
    x = fresh(4)
    text = torch.spyre.memory_summary()
    assert text.splitlines()[0].split() == ["spyre:0", "current", "peak", "allocated", "freed"]
    allocated = next(line for line in text.splitlines() if line.startswith("Allocated"))
    assert f"{torch.spyre.memory_allocated() / MIB:.2f} MiB" in allocated
    assert "freed" not in torch.spyre.memory_summary(abbreviated=True)
    free, total = torch.spyre.mem_get_info()
    assert total - free >= torch.spyre.memory_allocated()
    y = fresh(2)
    assert torch.spyre.mem_get_info() == (free - 2 * MIB, total)
    del x, y


def test_out_of_memory_names_sizes(run_python):
    code = """
import torch
x = torch.empty(30 << 20, dtype=torch.float16, device="spyre")
try:
    torch.empty(4 << 20, dtype=torch.float16, device="spyre")
except torch.OutOfMemoryError as error:
    print(error)
print(torch.spyre.memory_stats()["num_ooms"])
"""
    done = run_python(code, SPYRE_MEMORY_LIMIT_GB="0.0625")
    assert "8388608 bytes asked, 4194304 bytes free" in done.stdout
    assert "62914560 bytes in use in 1 blocks" in done.stdout
    assert "; the limit of 67108864 bytes is that of SPYRE_MEMORY_LIMIT_GB" in done.stdout
    assert done.stdout.splitlines()[-1] == "1"


def test_constants_of_programs_are_in_use(run_python):
    code = """
import torch
weight = torch.randn(512, 512, dtype=torch.float16)
used = lambda: (lambda free, total: total - free)(*torch.spyre.mem_get_info())
def f(x): return x @ weight.to(x.device) + torch.arange(512, device=x.device).to(x.dtype)
with torch.no_grad():
    x = torch.randn(64, 512, dtype=torch.float16, device="spyre")
    torch.compile(f)(x)
    torch.spyre.synchronize()
beyond = used() - torch.spyre.memory_allocated()
torch.spyre.set_per_process_memory_fraction((used() + (4 << 20)) / torch.spyre.mem_get_info()[1])
y = torch.empty(1 << 20, dtype=torch.float16, device="spyre")
try:
    torch.empty(2 << 20, dtype=torch.float16, device="spyre")
except torch.OutOfMemoryError as error:
    print(beyond, error)
"""
    printed = run_python(code).stdout
    assert int(printed.split()[0]) > 0
    assert "4194304 bytes asked, 209" in printed


def test_a_fraction_of_the_memory():
    torch.spyre.empty_cache()
    free, total = torch.spyre.mem_get_info()
    used = total - free
    torch.spyre.set_per_process_memory_fraction((used + 4 * MIB) / total, "spyre:0")
    try:
        x = fresh(2)
        with pytest.raises(torch.OutOfMemoryError, match=r"set_per_process_memory_fraction\(\)"):
            fresh(4)
        assert torch.spyre.get_per_process_memory_fraction() < 1
        torch.spyre.set_per_process_memory_fraction(0.0)
        assert torch.spyre.mem_get_info() == (0, 0) and x.nbytes == 2 * MIB
        with pytest.raises(ValueError, match="fraction: 2, expected a number from 0 to 1"):
            torch.spyre.set_per_process_memory_fraction(2)
        with pytest.raises(TypeError, match="fraction: expected a number, got str"):
            torch.spyre.set_per_process_memory_fraction("half")
    finally:
        torch.spyre.set_per_process_memory_fraction(1.0)
    assert torch.spyre.mem_get_info()[1] == total


def test_a_cache_of_no_bytes(run_python, torch_forks):
    code = """
import torch
before = torch.spyre.memory_reserved()
x = torch.empty(8 << 20, dtype=torch.float16, device="spyre")
del x
print(torch.spyre.memory_reserved() - before)
"""
    assert int(run_python(code, SPYRE_CACHE_LIMIT_GB="0").stdout) <= 2 * MIB
    bad = torch_forks.run(code, {**os.environ, "SPYRE_CACHE_LIMIT_GB": "all"})
    assert (
        bad.returncode == 1
        and "SPYRE_CACHE_LIMIT_GB=all: expected a number of GiB, 0 or more" in bad.stderr
    )


@pytest.mark.parametrize(
    "ask",
    [
        torch.spyre.memory_allocated,
        torch.spyre.memory_stats,
        torch.spyre.reset_peak_memory_stats,
        torch.spyre.reset_accumulated_memory_stats,
    ],
)
def test_memory_of_a_card_that_is_not_there_is_an_error(ask):
    with pytest.raises(RuntimeError, match=r"invalid device ordinal 9: this process uses 1 "):
        ask(9)


# Results above a segment of 16 GiB. The operands are never written, so they take no memory.
TOO_LARGE = {
    "cat": lambda x, s: torch.cat([x] * 5),
    "repeat": lambda x, s: x.repeat(5),
    "broadcast": lambda x, s: s[:, None] + s[None, :],
    "product": lambda x, s: s[:, None] @ s[None, :],
    "arange": lambda x, s: torch.arange(2**33, device="spyre"),
    "host": lambda x, s: torch.ops.aten.igamma(s[:, None], s[None, :]),
    "in host and card": lambda x, s: torch.ops.aten.igamma(s[:, None], s[None, :]).sum(),
}


@pytest.fixture
def operands():
    x = torch.empty(2**31, dtype=torch.float16, device="spyre")
    return x, torch.empty(2**17, dtype=torch.float16, device="spyre")


@pytest.mark.parametrize("name", TOO_LARGE)
@pytest.mark.parametrize("how", ["eager", "compiled"])
def test_a_result_above_a_segment_is_refused(operands, name, how):
    function = TOO_LARGE[name]
    if how == "compiled":
        torch._dynamo.reset()
        function = torch.compile(function)
    with pytest.raises(torch.OutOfMemoryError, match=r"\d{11} bytes .* 17179869184"):
        function(*operands)


def test_results_together_that_exceed_the_card_are_refused(operands):
    x, _small = operands
    with pytest.raises(torch.OutOfMemoryError, match="bytes asked, .* bytes free"):
        kept = [torch.empty_like(x) for _ in range(40)]
        assert not kept
    assert torch.empty_like(x).numel() == x.numel()


def test_names_of_programs_for_other_accelerators():
    x = fresh(8)
    nested = torch.spyre.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == torch.spyre.memory_allocated()
    peak = torch.spyre.max_memory_allocated()
    del x
    torch.spyre.reset_max_memory_allocated()
    assert torch.spyre.max_memory_allocated() == peak - 8 * MIB
    assert not torch.spyre.is_current_stream_capturing()
    assert len(torch.spyre.default_generators) == torch.spyre.device_count()
    seed = torch.spyre.default_generators[0].initial_seed()
    assert seed == torch.spyre.initial_seed()
    with torch.spyre.device_of(torch.ones(1)), torch.spyre.device_of(fresh(1)):
        assert torch.spyre.current_device() == 0
