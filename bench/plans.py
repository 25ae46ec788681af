# SPDX-License-Identifier: Apache-2.0
"""How good the compiler's plans are, in modelled time; nothing is executed.

    python bench/plans.py

- LX: the default solver's peak beside the exact optimum, on generated instances of 5 to 30 buffers.
- Divisions: the plan of each family of ops beside the best of 1,000 random legal ones on 32 cores,
  and how the front's cost model ranks plans that the card's timing model prices (Spearman).
- Llama: one block of Llama 3 8B, 512 tokens at once and one token after 511, beside the roofline
  of the card: each weight, input and output once at 150 GB/s, or all multiply-adds at the sustained
  rate. As planned by default, with inputs cloned into LX, and with divisions and LX together.
- Curve: the front's time and memory an op, for graphs of up to 20,000 ops.

`build/release/tools/plan_quality` does the work; PLAN_QUALITY names another one.
"""

import json
import os
import pathlib
import subprocess
import tempfile

import graphs
import published
import timing

TOOL = os.environ.get("PLAN_QUALITY", str(timing.ROOT / "build/release/tools/plan_quality"))
INSTANCES, PLANS, PAIRS_A_FAMILY = 200, 1000, 15
CURVE = (100, 1000, 5000, 20000)
MEMORY_RATE, MATMUL_RATE = 150e3, 1.14e6 * 32  # bytes and multiply-adds a us

Figures = dict[str, dict[str, float]]


def _tool(*arguments: str):
    done = subprocess.run([TOOL, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: {done.stderr.strip()}")
    return json.loads(done.stdout)


# --- LX


def solver() -> Figures:
    row = _tool("solver", str(INSTANCES))
    print(
        f"\nLX peak beside the exact optimum: equal on {row['equal']} of {row['instances']} "
        f"instances ({row['proved']} proved), at worst {row['worst_ratio']:.3f} times; "
        f"250 buffers take {row['buffers_250_ms']:.1f} ms"
    )
    return {"plans: LX peak": row}


# --- Divisions


def _node(op: str, inputs: dict, arguments: str, shape) -> str:
    node = f"%p = aten.{op}({arguments}) -> {graphs.tensor(shape)}"
    return graphs.graph(inputs, [node], "p")


def _feed_forward(rows: int, size: int, inner: int) -> str:
    wide, narrow = graphs.tensor((rows, inner)), graphs.tensor((rows, size))
    nodes = [
        f"%a = aten.mm.default(%x, %u) -> {wide}",
        f'%b = aten.gelu.default(%a, "none") -> {wide}',
        f"%p = aten.mm.default(%b, %d) -> {narrow}",
    ]
    inputs = {"x": (rows, size), "u": (size, inner), "d": (inner, size)}
    return graphs.graph(inputs, nodes, "p")


def _normalized(rows: int, size: int) -> str:
    arguments = f"%x, [{size}], %w, 0.00001"
    return _node("rms_norm.default", {"x": (rows, size), "w": (size,)}, arguments, (rows, size))


FAMILIES = {
    "unary": lambda: graphs.unary("neg", (100, 1000)),
    "binary": lambda: graphs.add((2048, 1024), (2048, 1024)),
    "binary with a row": lambda: graphs.add((2048, 1024), (1, 1024)),
    "binary with a column": lambda: graphs.add((2048, 1024), (2048, 1)),
    "sum of rows": lambda: graphs.summed((2048, 1024), 1),
    "sum across rows": lambda: graphs.summed((2048, 1024), 0),
    "maximum of rows": lambda: _node(
        "amax.default", {"x": (2048, 1024)}, "%x, [1], false", (2048,)
    ),
    "outer transpose": lambda: graphs.outer_transpose(512, 8, 1024),
    "cat of columns": lambda: graphs.cat(1024, 1024, 1),
    "cat of rows": lambda: graphs.cat(1024, 1024, 0),
    "restickify": lambda: graphs.transposed_add(1024, 1024),
    "matmul": lambda: graphs.product(1024, 1024, 1024),
    "matmul, tall": lambda: graphs.product(4096, 512, 256),
    "matmul of one row": lambda: graphs.product(1, 4096, 4096),
    "matmul, small": lambda: graphs.product(128, 256, 128),
    "batched matmul": lambda: graphs.batched_product(8, 256, 128, 256),
    "batched matmul, many": lambda: graphs.batched_product(32, 512, 128, 512),
    "softmax across rows": lambda: graphs.softmax_of((512, 1024), 0),
    "softmax along rows": lambda: graphs.softmax_of((4096, 2048), -1),
    "rms_norm": lambda: _normalized(2048, 1024),
    "feed-forward": lambda: _feed_forward(512, 512, 2048),
}


def _ranks(values: list[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end + 1 < len(order) and values[order[end + 1]] == values[order[at]]:
            end += 1
        for n in range(at, end + 1):
            ranks[order[n]] = (at + end) / 2
        at = end + 1
    return ranks


def spearman(pairs: list[list[float]]) -> float:
    """Rank correlation of two figures; equal ones share a rank."""
    a, b = (_ranks([pair[k] for pair in pairs]) for k in (0, 1))
    mean = (len(pairs) - 1) / 2
    both = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    return both / (sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b)) ** 0.5


def divisions(plans: int = PLANS) -> Figures:
    rows, pairs = {}, []
    print(
        f"\n{f'Best of {plans} random divisions':30s}{'plan us':>10s}{'best us':>10s}{'ratio':>8s}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FAMILIES.items():
            source = pathlib.Path(folder) / "family.graph"
            source.write_text(text())
            found = _tool("divisions", str(source), str(plans))
            pairs += found["plans"][:PAIRS_A_FAMILY]
            ratio = found["card_us"] / found["best_us"]
            better = f"  {found['best_plan']}" if ratio > 1.0001 else ""
            print(
                f"{name:30s}{found['card_us']:10.2f}{found['best_us']:10.2f}{ratio:8.3f}{better}",
                flush=True,
            )
            rows[f"plans: {name}"] = {
                "card us": found["card_us"],
                "best us": found["best_us"],
                "ratio": ratio,
            }
    rank = spearman(pairs)
    print(f"Spearman of predicted and modelled times over {len(pairs)} plans: {rank:.3f}")
    return rows | {"plans: cost model": {"plans": len(pairs), "spearman": rank}}


# --- A block of Llama 3 8B (hidden 4096, 32 heads of 128, 8 of keys and values, 14336)


def llama_block(tokens: int, cached: int) -> str:
    """`tokens` new ones after `cached` ones, whose keys and values come in as they are kept."""
    hidden, heads, groups, size, inner = 4096, 32, 8, 128, 14336
    length, kv = tokens + cached, groups * size
    inputs = {
        "x": (tokens, hidden), "n1": (hidden,), "n2": (hidden,), "cos": (tokens, 1, size // 2),
        "sin": (tokens, 1, size // 2), "wq": (hidden, hidden), "wk": (hidden, kv),
        "wv": (hidden, kv), "wo": (hidden, hidden), "wg": (hidden, inner), "wu": (hidden, inner),
        "wd": (inner, hidden),
    }  # fmt: skip
    if cached:
        inputs |= {"ck": (cached, groups, size), "cv": (cached, groups, size)}
    nodes: list[str] = []

    def add(name: str, call: str, shape, strides: str = "") -> str:
        nodes.append(f"%{name} = aten.{call} -> {graphs.tensor(shape)}{strides}")
        return f"%{name}"

    def rotated(name: str, value: str, count: int) -> str:
        half, whole = (tokens, count, size // 2), (tokens, count, size)
        strides = f"{{{count * size}, {size}, 1}}"
        add(f"{name}4", f"view.default({value}, [{tokens}, {count}, {size}])", whole)
        low = add(f"{name}l", f"slice.Tensor(%{name}4, 2, 0, {size // 2})", half, strides)
        high = add(f"{name}h", f"slice.Tensor(%{name}4, 2, {size // 2}, {size})", half,
                   strides + f"+{size // 2}")  # fmt: skip
        for part, sign, a, b in (("1", "sub", "cos", "sin"), ("2", "add", "sin", "cos")):
            add(f"{name}a{part}", f"mul.Tensor({low}, %{a})", half)
            add(f"{name}b{part}", f"mul.Tensor({high}, %{b})", half)
            add(f"{name}r{part}", f"{sign}.Tensor(%{name}a{part}, %{name}b{part})", half)
        return add(f"{name}r", f"cat.default([%{name}r1, %{name}r2], 2)", whole)

    def with_cache(name: str, value: str, cache: str) -> str:
        if not cached:
            return value
        return add(name, f"cat.default([%{cache}, {value}], 0)", (length, groups, size))

    def heads_first(name: str, value: str, rows: int, count: int) -> str:
        flipped = f"{{{size}, {count * size}, 1}}"
        return add(name, f"transpose.int({value}, 0, 1)", (count, rows, size), flipped)

    def spread(name: str, value: str) -> str:
        """Every group of keys or values serves four heads."""
        each = heads // groups
        flipped = f"{{{size}, 0, {groups * size}, 1}}"
        heads_first(f"{name}t", value, length, groups)
        add(f"{name}u", f"unsqueeze.default(%{name}t, 1)", (groups, 1, length, size),
            f"{{{size}, {size}, {groups * size}, 1}}")  # fmt: skip
        add(f"{name}e", f"expand.default(%{name}u, [{groups}, {each}, {length}, {size}])",
            (groups, each, length, size), flipped)  # fmt: skip
        add(f"{name}c", f"clone.default(%{name}e)", (groups, each, length, size))
        return add(f"{name}f", f"view.default(%{name}c, [{heads}, {length}, {size}])",
                   (heads, length, size))  # fmt: skip

    normal = f", [{hidden}], "
    add("h", f"rms_norm.default(%x{normal}%n1, 0.00001)", (tokens, hidden))
    q = rotated("q", add("q0", "mm.default(%h, %wq)", (tokens, hidden)), heads)
    k = rotated("k", add("k0", "mm.default(%h, %wk)", (tokens, kv)), groups)
    add("v0", "mm.default(%h, %wv)", (tokens, kv))
    v = add("v4", f"view.default(%v0, [{tokens}, {groups}, {size}])", (tokens, groups, size))
    k, v = with_cache("kc", k, "ck"), with_cache("vc", v, "cv")
    q, k, v = heads_first("qt", q, tokens, heads), spread("kx", k), spread("vx", v)
    keys = add("kt", f"transpose.int({k}, 1, 2)", (heads, size, length),
               f"{{{length * size}, 1, {size}}}")  # fmt: skip
    scores = add("s", f"bmm.default({q}, {keys})", (heads, tokens, length))
    add("sc", f"mul.Tensor({scores}, {size**-0.5})", (heads, tokens, length))
    add("p", "_softmax.default(%sc, -1, false)", (heads, tokens, length))
    add("o", f"bmm.default(%p, {v})", (heads, tokens, size))
    add("ot", "transpose.int(%o, 0, 1)", (tokens, heads, size),
        f"{{{size}, {tokens * size}, 1}}")  # fmt: skip
    add("oc", "clone.default(%ot)", (tokens, heads, size))
    add("of", f"view.default(%oc, [{tokens}, {hidden}])", (tokens, hidden))
    add("op", "mm.default(%of, %wo)", (tokens, hidden))
    add("r", "add.Tensor(%x, %op)", (tokens, hidden))
    add("g", f"rms_norm.default(%r{normal}%n2, 0.00001)", (tokens, hidden))
    add("gate", "mm.default(%g, %wg)", (tokens, inner))
    add("up", "mm.default(%g, %wu)", (tokens, inner))
    add("act", "silu.default(%gate)", (tokens, inner))
    add("both", "mul.Tensor(%act, %up)", (tokens, inner))
    add("down", "mm.default(%both, %wd)", (tokens, hidden))
    add("y", "add.Tensor(%r, %down)", (tokens, hidden))
    return graphs.graph(inputs, nodes, "y")


TOGETHER = ("--set", "co_optimizing_lx_planning=1")
LLAMA_PLANS = {"": (), ", cloned": timing.CLONED, ", together": (*timing.CLONED, *TOGETHER)}


def llama() -> Figures:
    rows = {}
    heading = f"{'modelled us':>12s}{'memory':>10s}{'compute':>10s}{'of roofline':>12s}"
    print(f"\n{'Llama 3 8B, one block':30s}{heading}")
    for name, tokens, cached in (("prefill 512", 512, 0), ("decode 1 after 511", 1, 511)):
        weights = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
        length = tokens + cached
        kept = 2 * length * 8 * 128
        memory = published.ELEMENT * (weights + 2 * tokens * 4096 + kept) / MEMORY_RATE
        compute = (tokens * weights + 2 * 32 * tokens * length * 128) / MATMUL_RATE
        for label, options in LLAMA_PLANS.items():
            us, _ = timing.price(llama_block(tokens, cached), *options)
            share = max(memory, compute) / us
            print(f"{name + label:30s}{us:12.1f}{memory:10.1f}{compute:10.1f}{share:12.2f}")
            rows[f"plans: llama {name}{label}"] = {"card us": us, "of roofline": share}
    return rows


# --- The curve


def curve() -> Figures:
    heading = f"{'ms':>10s}{'us an op':>10s}{'IR bytes an op':>16s}{'with bundle':>12s}"
    print(f"\n{'Front-end':30s}{heading}")
    rows = {}
    for row in _tool("curve", *map(str, CURVE)):
        name = f"{row['ops']} ops"
        print(
            f"{name:30s}{row['front_ms']:10.2f}{row['us_an_op']:10.2f}"
            f"{row['ir_bytes_an_op']:16.0f}{row['bytes_an_op']:12.0f}"
        )
        rows[f"plans: front, {name}"] = row
    return rows


def run(only: str = "") -> Figures:
    """Prints the tables; {row: its figures}, for bench/run.py."""
    parts = {"solver": solver, "divisions": divisions, "llama": llama, "curve": curve}
    wanted = [part for name, part in parts.items() if only in f"plans {name}"]
    return {name: row for part in wanted for name, row in part().items()}


if __name__ == "__main__":
    run()
