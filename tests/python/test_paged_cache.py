# SPDX-License-Identifier: Apache-2.0
"""Graphs for `sendnn` with paged attention: the cache stays on the card, a store writes its rows.

The operators are those of foundation-model-stack, defined here anew by what they mean.
"""

import datetime
import json

import pytest
import torch
import torch_spyre
from torch_spyre.sendnn import block_tables, recording, resident, steps, warmup

HEADS, KEY_HEADS, WIDTH, BLOCK, BLOCKS, LAYERS = 4, 2, 64, 64, 12, 2
MODEL = HEADS * WIDTH
CLOSE = {"rtol": 0.03, "atol": 0.02}


def _store(key, value, key_cache, value_cache, slot_mapping):
    caches = key_cache.clone(), value_cache.clone()
    for cache, fresh in zip(caches, (key, value), strict=True):
        slots = cache.flatten(0, 1)
        for row, slot in zip(fresh.flatten(0, 1), slot_mapping.flatten().tolist(), strict=True):
            slots[slot] = row
    return caches


def _attend(query, key_cache, value_cache, scale, tkv, left, table, sinks=None, window=0):
    """A sink is a key of no value, whose scores are given by head."""
    result = torch.zeros_like(query)
    queries, group = query.shape[1], query.shape[2] // key_cache.shape[2]
    for b in range(query.shape[0]):
        place = torch.arange(int(left[b]), int(tkv[b]))
        slot = table[b][place // BLOCK] * BLOCK + place % BLOCK
        key, value = (
            cache.flatten(0, 1)[slot].repeat_interleave(group, 1).transpose(0, 1)
            for cache in (key_cache, value_cache)
        )
        last = torch.arange(int(tkv[b]) - queries, int(tkv[b]))[:, None]
        mask = (place <= last) & (place > last - window if window > 0 else place >= 0)
        scores = (query[b].transpose(0, 1).float() @ key.transpose(1, 2).float()) * scale
        scores = scores.masked_fill(~mask, -torch.inf)
        if sinks is not None:
            sink = sinks.float().view(-1, 1, 1).expand(-1, queries, 1)
            scores = torch.cat([scores, sink], -1)
        shares = scores.softmax(-1)[..., : place.numel()].nan_to_num(0.0)
        result[b] = (shares @ value.float()).transpose(0, 1)
    return result


@pytest.fixture(scope="module", autouse=True)
def operators():
    library = torch.library.Library("spyre", "FRAGMENT")
    library.define("paged_attn_store(Tensor key, Tensor value, Tensor key_cache, Tensor "
                   "value_cache, Tensor slot_mapping) -> (Tensor, Tensor)")  # fmt: skip
    library.define("paged_attn_compute(Tensor query, Tensor key_cache, Tensor value_cache, float "
                   "scale, Tensor current_tkv_mask, Tensor left_padded_prompt_mask, Tensor "
                   "block_table) -> Tensor")  # fmt: skip
    library.define("paged_attn_compute_with_sinks(Tensor query, Tensor key_cache, Tensor "
                   "value_cache, float scale, Tensor current_tkv_mask, Tensor "
                   "left_padded_prompt_mask, Tensor block_table, Tensor sinks, int "
                   "sliding_window) -> Tensor")  # fmt: skip
    library.impl("paged_attn_store", _store, "CPU")
    library.impl("paged_attn_compute_with_sinks", _attend, "CPU")
    library.impl("paged_attn_compute_with_sinks", lambda q, *_: torch.empty_like(q), "Meta")
    library.impl("paged_attn_compute", _attend, "CPU")
    library.impl("paged_attn_store", lambda k, v, kc, vc, s: (kc.clone(), vc.clone()), "Meta")
    library.impl("paged_attn_compute", lambda q, *_: torch.empty_like(q), "Meta")
    yield
    library._destroy()


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.ModuleList(
            torch.nn.Linear(MODEL, (HEADS + 2 * KEY_HEADS) * WIDTH) for _ in range(LAYERS)
        )

    def forward(self, x, caches, slot_mapping, tkv, left, table):
        new = []
        for layer, (key_cache, value_cache) in zip(self.qkv, caches, strict=True):
            q, k, v = layer(x).split([HEADS * WIDTH, KEY_HEADS * WIDTH, KEY_HEADS * WIDTH], -1)
            k, v = (y.unflatten(-1, (KEY_HEADS, WIDTH)) for y in (k, v))
            stored = torch.ops.spyre.paged_attn_store(k, v, key_cache, value_cache, slot_mapping)
            q = q.unflatten(-1, (HEADS, WIDTH))
            y = self.attend(len(new), q, *stored, WIDTH**-0.5, tkv, left, table)
            x = x + y.flatten(2)
            new.append(stored)
        return x, new

    def attend(self, _layer, *operands):
        return torch.ops.spyre.paged_attn_compute(*operands)


class Windowed(Decoder):
    """With sinks, and a window of its own in each layer."""

    def __init__(self):
        super().__init__()
        self.sinks = torch.nn.Parameter(torch.randn(HEADS))

    def attend(self, layer, *operands):
        window = (70, -1)[layer]
        return torch.ops.spyre.paged_attn_compute_with_sinks(*operands, self.sinks, window)


def _caches():
    shape = (BLOCKS, BLOCK, KEY_HEADS, WIDTH)
    return [tuple(torch.zeros(shape).half() for _ in range(2)) for _ in range(LAYERS)]


def _prompt(blocks, length, left=0):
    """Inputs of a prompt of one sequence in these blocks, padded left by whole blocks."""
    slots = torch.cat([torch.arange(b * BLOCK, (b + 1) * BLOCK) for b in blocks])
    x = torch.randn(1, length, MODEL).half()
    return (x, slots[None, :length], torch.tensor([length]), torch.tensor([left]),
            torch.tensor([blocks]))  # fmt: skip


def _step(tables, lengths, left):
    """Inputs of a decode step: sequence b has lengths[b] tokens, that of the step among them."""
    slots = [
        [table[(n - 1) // BLOCK] * BLOCK + (n - 1) % BLOCK]
        for table, n in zip(tables, lengths, strict=True)
    ]
    x = torch.randn(len(tables), 1, MODEL).half()
    return x, *map(torch.tensor, (slots, lengths, left, tables))


class Both:
    """The model on the CPU and on the card, each with its own cache."""

    def __init__(self, model=None):
        self.model = (model or Decoder()).half().requires_grad_(False)
        self.compiled = torch.compile(self.model, backend="sendnn")
        self.host, self.card = _caches(), _caches()

    def call(self, inputs, dynamic=()):
        x, *rest = inputs
        for index, dim in dynamic:
            torch._dynamo.mark_dynamic(inputs[index], dim)
        expected, self.host = self.model(x, self.host, *rest)
        result, cache = self.compiled(x, self.card, *rest)
        torch.testing.assert_close(result, expected, **CLOSE)
        for before, after in zip(self.card, cache, strict=True):
            assert all(a is b for a, b in zip(before, after, strict=True))
        return result


PROMPT = ((4, 1),)  # the block table's width
STEP = ((0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (4, 1))


@pytest.mark.parametrize("model", [Decoder, Windowed])
def test_prompts_and_steps_equal_those_of_the_cpu(model):
    both = Both(model())
    both.call(_prompt([1, 2], 128))
    both.call(_prompt([3, 4], 128, left=64))
    assert "0 on the host, 1 segments" in str(torch_spyre.last_report())
    tables = [[1, 2, 5], [3, 4, 6]]
    for more in range(3):
        both.call(_step(tables, [129 + more, 129 + more], [0, 64]), STEP)
    both.call(_step([[1, 2, 5, 7]], [132], [0]), STEP)
    for host, card in zip(both.host, both.card, strict=True):
        for expected, given in zip(host, card, strict=True):
            rows = resident.cache_rows(given).cpu().reshape(expected.shape)
            torch.testing.assert_close(rows, expected, **CLOSE)
            assert given.abs().max() == 0  # the host's copy is as it was


def test_a_chunk_behind_another():
    """Of a prompt in two chunks the second reads the first; of a cached block nothing is stored."""
    both = Both()
    both.call(_prompt([1, 2], 128))
    x, _, _, left, _ = _prompt([3, 4], 128)
    slots = torch.cat([torch.arange(0, 64), torch.arange(4 * 64, 5 * 64)])  # block 3: to padding
    both.call((x, slots[None], torch.tensor([256]), left, torch.tensor([[1, 2, 3, 4]])))


class Worded(Decoder):
    """With a product that makes rows wider, of the last tokens of a prompt."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Linear(MODEL, 1000, bias=False)

    def forward(self, x, *rest):
        x, new = super().forward(x, *rest)
        return self.words(x[:, -BLOCK:]).float() / 8, new


def _lines(path, kind):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def _rows_computed(path):
    return [line["batch"] for line in _lines(path, "rows")]


def test_rows_of_a_prompt_are_computed_when_they_are_read(monkeypatch, tmp_path):
    """As parameters were at the call; of a step every row is wanted, and no end is cut off."""
    path = tmp_path / "steps"
    monkeypatch.setenv("SPYRE_SENDNN_STEPS", str(path))
    monkeypatch.setattr(recording, "_recorder", None)
    both = Both(Worded())
    (x, *rest), one = _prompt([1, 2], 128), torch.tensor([True])
    results = []
    for _ in range(2):
        expected, both.host = both.model(x, both.host, *rest)
        results.append((both.compiled(x, both.card, *rest)[0], expected))
        both.model.words.weight.mul_(2)
    for result, expected in results:
        assert result.shape == expected.shape and result.dtype == torch.float32
        torch.testing.assert_close(result[one, -1, :], expected[one, -1, :], **CLOSE)
    result, expected = results[0]
    compiled = len(torch_spyre.compile_reports())
    torch.testing.assert_close(result[one, -3], expected[one, -3], **CLOSE)
    assert len(torch_spyre.compile_reports()) == compiled
    torch.testing.assert_close(result + 0, expected, **CLOSE)
    assert torch.equal(result[one, -3], result[:, -3])
    assert _rows_computed(path) == [1, 1, 1, 64]
    prompts, rows = (_lines(path, kind) for kind in ("prompt", "rows"))
    assert len(prompts) == 2 and prompts[1]["card_us"] > rows[0]["card_us"] > 0  # of its own work
    both.call(_step([[1, 2, 5]], [129], [0]))
    assert _rows_computed(path) == [1, 1, 1, 64]


def test_a_store_writes_its_rows_only(monkeypatch):
    both = Both()
    both.call(_prompt([1, 2], 128))
    table = both.card[0][0]
    before = resident.cache_rows(table).cpu()
    written = []
    original = torch_spyre._C.copy_rows

    def copy_rows(target, source, runs):
        written.append(runs)
        assert original(target, source, runs)  # keys and values are columns of one product
        return True

    monkeypatch.setattr(torch_spyre._C, "copy_rows", copy_rows)
    both.call(_step([[1, 2, 5]], [129], [0]))
    assert written == [[(5 * 64, 0, 1)]] * 2 * LAYERS
    after = resident.cache_rows(table).cpu()
    changed = (before != after).any(1).nonzero().flatten().tolist()
    assert changed == [5 * 64]


class Turned(Decoder):
    """With a rotary embedding as foundation-model-stack has it: its keys may be laid out as the
    matmul of the scores wants them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("angles", torch.rand(256, 2, 2, WIDTH // 2))

    def turn(self, z, tkv):
        pairs = z.unflatten(-1, (2, WIDTH // 2)).unsqueeze(-3)
        angles = self.angles[tkv].unsqueeze(1).unsqueeze(1)
        return (pairs * angles).sum(-2).flatten(3)

    def forward(self, x, caches, slot_mapping, tkv, left, table):
        new = []
        for layer, (key_cache, value_cache) in zip(self.qkv, caches, strict=True):
            y = layer(x).unflatten(-1, (HEADS + 2 * KEY_HEADS, WIDTH))
            q, k, v = y.split([HEADS, KEY_HEADS, KEY_HEADS], 2)
            q, k = (self.turn(z.float(), tkv).half() for z in (q, k))
            stored = torch.ops.spyre.paged_attn_store(k, v, key_cache, value_cache, slot_mapping)
            y = torch.ops.spyre.paged_attn_compute(q, *stored, WIDTH**-0.5, tkv, left, table)
            x = x + y.flatten(2)
            new.append(stored)
        return x, new


def test_every_store_copies_rows_and_programs_are_compiled_once(refused_rows):
    """Also where a call reads as many rows as the cache has."""
    both = Both(Turned())
    tables = [[1, 2, 5], [3, 4, 6], [7, 8, 9], [10, 11, 0]]
    compiled = 0
    for blocks in tables:
        both.call(_prompt(blocks[:2], 128))
    for step in range(5):
        both.call(_step(tables, [129 + step] * 4, [0] * 4), STEP)
        compiled = len(torch_spyre.compile_reports()) if step == 1 else compiled
    assert not refused_rows
    assert len(torch_spyre.compile_reports()) == compiled


def _integers(*shape):
    return torch.randint(-99, 99, shape).half()  # exact on the card


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("columns", [(0, 64), (64, 128), (128, 256), (0, 256), (0, 100), (32, 96)])
def test_rows_are_copied_from_columns_of_a_tensor(rows, columns):
    """Parts of sticks are left to other copies, and change nothing."""
    first, end = columns
    whole = _integers(rows + 1, 256)
    expected = _integers(12, end - first)
    card, source = expected.to("spyre"), whole.to("spyre")
    for top in (0, 1):
        view, part = whole[top : top + rows, first:end], source[top : top + rows, first:end]
        copied = torch_spyre._C.copy_rows(card, part, [(3 + top, 0, rows), (11, rows - 1, 1)])
        assert copied == (first % 64 == 0 and end % 64 == 0)
        if copied:
            expected[3 + top : 3 + top + rows] = view
            expected[11] = view[-1]
        assert torch.equal(card.cpu(), expected)


def test_rows_are_copied_into_columns_of_a_tensor():
    expected, rows = _integers(12, 256), _integers(4, 64)
    card = expected.to("spyre")
    assert torch_spyre._C.copy_rows(card[2:, 128:192], rows.to("spyre"), [(1, 0, 4)])
    expected[3:7, 128:192] = rows
    assert torch.equal(card.cpu(), expected)


def test_a_cache_that_the_program_changes_starts_anew():
    both = Both()
    both.call(_prompt([1, 2], 128))
    for caches in (both.host, both.card):
        for pair in caches:
            for cache in pair:
                cache.zero_()
    both.call(_step([[1, 2, 5]], [129], [0]))


@pytest.mark.parametrize(
    "model, most, context, anew",  # anew: when the sinks have got the layout that is read
    [(Decoder, 4, 256, 0), (Turned, 3, 170, 0), (Windowed, 4, 256, 2)],
)
def test_batches_fill_up_and_compile_nothing_after_warm_up(monkeypatch, model, most, context, anew):
    monkeypatch.setenv("VLLM_DT_MAX_BATCH_SIZE", str(most))
    monkeypatch.setenv("VLLM_DT_MAX_CONTEXT_LEN", str(context))
    both, before = Both(model()), len(torch_spyre.compile_reports())
    with warmup.warmup_mode():
        both.call(_step([[1, 2], [3, 4]], [66, 67], [0, 0]), STEP)
    compiled = len(torch_spyre.compile_reports())
    assert compiled == before + 9 + anew  # batches 1, 2 and the most, by blocks 1, 2 and the most
    tables = [[1, 2, 9, 10], [3, 4, 11, 0], [5, 6, 9, 10], [7, 8, 9, 10]]
    for count, length in ((3, 69), (most, 3), (2, 70), (most, 100), (2, context - 6)):
        both.call(_step(tables[:count], [length] * count, [0] * count), STEP)
    assert len(torch_spyre.compile_reports()) == compiled


def test_a_cache_that_does_not_fit_says_so_before_anything_is_done(monkeypatch):
    monkeypatch.setenv("VLLM_DT_MAX_BATCH_SIZE", "4")
    monkeypatch.setenv("VLLM_DT_MAX_CONTEXT_LEN", "256")
    both, before = Both(), len(torch_spyre.compile_reports())
    blocks = 1 << 23
    huge = torch.zeros(1, 1, 1, 1).half().expand(blocks, BLOCK, KEY_HEADS, WIDTH)
    caches = [(huge.view(huge.shape), huge.view(huge.shape)) for _ in range(LAYERS)]
    x, *rest = _step([[1, 2], [3, 4]], [65, 65], [0, 0])
    for index, dim in STEP:
        torch._dynamo.mark_dynamic([x, *rest][index], dim)
    megabytes = 2 * LAYERS * blocks * BLOCK * KEY_HEADS * WIDTH * 2 / 1e6
    rows = 2 * 4 * 4 * BLOCK * KEY_HEADS * WIDTH * 2 / 1e6
    with pytest.raises(torch.OutOfMemoryError, match="MB are free") as error:
        both.compiled(x, caches, *rest)
    assert f"KV cache {megabytes:.1f} MB (4 tables of {blocks} blocks)" in str(error.value)
    assert f"rows that a step reads {rows:.1f} MB" in str(error.value)
    assert len(torch_spyre.compile_reports()) == before


def test_slots_that_the_cache_does_not_have():
    both = Both()
    x, _, tkv, left, table = _step([[1, 2]], [65], [0])
    slots = torch.tensor([[BLOCKS * BLOCK]])
    with pytest.raises(ValueError, match=f"slot_mapping names slots 768..768 of a cache of {768}"):
        both.compiled(x, both.card, slots, tkv, left, table)
    x, slots, tkv, left, _ = _step([[1, 2]], [65], [0])
    with pytest.raises(ValueError, match="block_table names slots"):
        both.compiled(x, both.card, slots, tkv, left, torch.tensor([[1, BLOCKS]]))
    x, slots, _, left, table = _step([[1, 2]], [65], [0])
    with pytest.raises(ValueError, match="has 129 positions, block_table 2 blocks of 64"):
        both.compiled(x, both.card, slots, torch.tensor([129]), left, table)


def test_a_slot_that_another_sequence_writes():
    both = Both()
    inputs = _step([[1, 2], [1, 2]], [65, 66], [0, 0])
    with pytest.raises(ValueError, match="sequence 1 reads a slot that another one writes"):
        both.compiled(inputs[0], both.card, *inputs[1:])


@pytest.mark.parametrize(
    "mapping, runs",
    [
        ([[5, 6, 7]], [(5, 0, 3)]),
        ([[5], [9]], [(5, 0, 1), (9, 1, 1)]),
        ([[0, 1, 0, 1, 8]], [(0, 2, 2), (8, 4, 1)]),  # the last of a slot stays
        ([[3, 2]], [(3, 0, 1), (2, 1, 1)]),
    ],
)
def test_runs_of_slots(mapping, runs):
    assert block_tables.writes(torch.tensor(mapping)) == runs


@pytest.mark.host("spyre.paged_attn_store", "spyre.paged_attn_compute")
def test_another_form_runs_on_the_host(caplog):
    def f(x, key_cache, value_cache, slot_mapping):
        k = x.unflatten(-1, (KEY_HEADS, WIDTH))
        stored = torch.ops.spyre.paged_attn_store(k, k, key_cache * 1, value_cache, slot_mapping)
        return stored[0] + stored[1]

    x = torch.randn(1, 3, KEY_HEADS * WIDTH).half()
    inputs = (x, *_caches()[0], torch.tensor([[5, 6, 7]]))
    result = torch.compile(f, backend="sendnn")(*inputs)
    torch.testing.assert_close(result, f(*inputs), rtol=2e-3, atol=2e-3)
    assert "a cache that is no input of the graph" in caplog.text


def test_steps_are_recorded_with_their_time_on_the_card(monkeypatch, tmp_path, capsys):
    path, requests = tmp_path / "steps.jsonl", tmp_path / "requests.jsonl"
    monkeypatch.setenv("SPYRE_SENDNN_STEPS", str(path))
    monkeypatch.setattr(recording, "_recorder", None)
    both = Both()
    both.call(_prompt([1, 2], 128))
    for more in range(2):
        both.call(_step([[1, 2, 5]], [129 + more], [0]))
    prompt, first, second = steps.read(str(path), ["end", "card_us"])
    assert (prompt["kind"], prompt["tokens"], first["kind"], first["tokens"]) == (
        "prompt", 128, "decode", 1
    )  # fmt: skip
    assert first["batch"] == 1 and first["blocks"] == 2 and first["host_s"] > 0
    assert prompt["card_us"] > max(first["card_us"], second["card_us"])
    assert min(first["card_us"], second["card_us"]) > 0
    end = datetime.datetime.fromtimestamp(second["end"])
    request = {"timestamp": end.isoformat(timespec="milliseconds"), "num_generation_tokens": 3,
               "decode_time_seconds": second["end"] - prompt["end"],
               "e2e_latency_seconds": second["end"] - prompt["end"] + 10}  # fmt: skip
    (found,) = steps.of_requests([second, prompt, first], [request])
    assert found["first_card"] == pytest.approx(prompt["card_us"] / 1e6)
    of_decode = first["card_us"] + second["card_us"]
    assert found["next_card"] == pytest.approx(of_decode / 2e6)
    assert found["first_host"] == pytest.approx(10)
    requests.write_text(json.dumps(request) + "\n")
    assert steps.main([str(path), str(requests)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("1 requests") for line in lines)
    assert lines[1].split()[:4] == ["prompt", "1", "2", "1"]


@pytest.mark.parametrize(
    "text, said",
    [("{", ":1: no line of JSON"), ("\n3", ":2: without end"), ('{"end": 1}', ":1: without kind")],
)
def test_a_file_of_other_things_is_no_file_of_steps(text, said, tmp_path, capsys):
    (tmp_path / "steps").write_text(text)
    assert steps.main([str(tmp_path / "steps")]) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_cannot_be_written_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("SPYRE_SENDNN_STEPS", str(tmp_path / "none" / "steps"))
    monkeypatch.setattr(recording, "_recorder", None)
    with pytest.raises(RuntimeError, match="SPYRE_SENDNN_STEPS=.*: No such file"):
        Both().call(_prompt([1, 2], 128))
