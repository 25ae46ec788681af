# SPDX-License-Identifier: Apache-2.0
"""Profiles a forward pass of a small Granite with random weights: where the time goes.

    python examples/profile_granite.py --layers 4 --logs logs

1. The region is bounded: compiling and warming up happen before, a schedule takes some passes.
2. Two times of the host, wall clock and processor, beside the modelled time of the card.
3. What the card did, by operation and kernel by kernel, and how long it stood still between.

The trace in the folder is for https://ui.perfetto.dev. See docs/profiling.md.
"""

import argparse
import collections
import statistics
import time

import torch
from torch.autograd import DeviceType
from torch.profiler import (
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)
from torch_spyre.profiler import is_available
from transformers import GraniteConfig, GraniteForCausalLM

WARMUP, ACTIVE = 1, 3


def small_granite(layers: int) -> torch.nn.Module:
    config = GraniteConfig(
        num_hidden_layers=layers,
        hidden_size=256,
        intermediate_size=512,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=1024,
        max_position_embeddings=256,
        use_cache=False,
    )
    torch.manual_seed(0)
    return GraniteForCausalLM(config).half().eval()


def run_profiled(forward, logs: str):
    """The profile, and wall clock and processor milliseconds of every pass in it."""
    wall, processor = [], []
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1],
        schedule=schedule(wait=0, warmup=WARMUP, active=ACTIVE, repeat=1),
        on_trace_ready=tensorboard_trace_handler(logs),
        record_shapes=True,
        profile_memory=True,
    ) as prof:
        for step in range(WARMUP + ACTIVE):
            wall_begin, processor_begin = time.perf_counter(), time.process_time()
            with record_function(f"iteration_{step}"):
                forward()
            if step >= WARMUP:
                wall.append(1e3 * (time.perf_counter() - wall_begin))
                processor.append(1e3 * (time.process_time() - processor_begin))
            prof.step()
    return prof, wall, processor


def card_events(prof) -> list:
    return [e for e in prof.events() if e.device_type == DeviceType.PrivateUse1]


def print_operations(events) -> None:
    """Of "sdsc_fused_mul_add_0#7_mul" the operation is mul."""
    times = collections.defaultdict(list)
    for event in events:
        kernel = event.name.partition("#")[2]
        times[kernel.partition("_")[2] or event.name].append(event.time_range.elapsed_us())
    total = sum(map(sum, times.values()))
    print(f"{'operation':20} {'events':>8} {'us a pass':>10} {'share':>7}")
    for operation, each in sorted(times.items(), key=lambda item: -sum(item[1])):
        us = sum(each)
        print(f"{operation:20} {len(each):8} {us / ACTIVE:10.3f} {us / total:7.1%}")


def card_times(events) -> tuple[float, float]:
    """Milliseconds a pass with the card at work, and standing still between its first and last
    event."""
    busy = sum(e.time_range.elapsed_us() for e in events)
    span = max(e.time_range.end for e in events) - min(e.time_range.start for e in events)
    return busy / 1e3 / ACTIVE, (span - busy) / 1e3 / ACTIVE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--logs", default="logs", help="folder for the trace")
    options = parser.parse_args()
    if options.layers < 1 or not 1 <= options.tokens <= 256:
        parser.error("--layers is 1 or more, --tokens 1 to 256")
    if not is_available():
        parser.error("no events of the card: USE_SPYRE_PROFILER=0, or a PyTorch without Kineto")

    model = small_granite(options.layers)
    ids = torch.randint(0, 1024, (1, options.tokens))
    with torch.no_grad():
        expected = model(ids).logits
        model.to("spyre")
        compiled = torch.compile(model, dynamic=False)
        ids = ids.to("spyre")
        delta = (compiled(ids).logits.cpu() - expected).abs().max().item()
        print(f"max delta: {delta}")
        prof, wall, processor = run_profiled(lambda: compiled(ids).logits.cpu(), options.logs)

    events = card_events(prof)
    busy, idle = card_times(events)
    print_operations(events)
    print(prof.key_averages().table(sort_by="self_device_time_total", row_limit=12))
    print(f"wall clock    {statistics.median(wall):9.3f} ms a pass (median)")
    print(f"processor     {statistics.median(processor):9.3f} ms: the host's, emulation included")
    print(f"card          {busy:9.3f} ms: modelled time at work")
    print(f"card stands   {idle:9.3f} ms: while it waits for the host")
    print(f"trace in {options.logs}/")


if __name__ == "__main__":
    main()
