# SPDX-License-Identifier: Apache-2.0
"""spyre_hint(num_tiles_per_dim=...): loops over tiles, against PyTorch."""

import json
import math
import re

import pytest
import torch
import torch.nn.functional as F
import torch_spyre
from host_ops import HOST, on_host
from torch_spyre import config
from torch_spyre._inductor import spyre_hint
from torch_spyre._inductor.wsr import propagate_named_dims
from torch_spyre._inductor.wsr.propagate_named_dims import declare_tensor_dim, name_tensor_dims
from torch_spyre.compile import call_compiler

M, K, N, H = 64, 256, 128, 512


def tiles(**count):
    return spyre_hint(num_tiles_per_dim=count)


@pytest.fixture(autouse=True)
def sizes():
    named = {"M": M, "K": K, "N": N, "H": H, "B": 2, "Heads": 4, "Q": 128, "T": 128, "D": 64}
    for name, size in named.items():
        declare_tensor_dim(name, size)
    yield named
    propagate_named_dims.reset()


@pytest.fixture
def tensor(sizes):
    """tensor("M,K"): a random tensor of the card whose dims have these names."""

    def make(names, scale=1.0):
        dims = names.split(",")
        host = torch.randn([sizes[name] for name in dims]) * scale
        made = host.half().to("spyre")
        name_tensor_dims(made, dims)
        return made

    torch.manual_seed(0)
    return make


def check(function, *tensors, atol=0.02, rtol=0.01):
    torch._dynamo.reset()
    with torch.no_grad():
        result = torch.compile(function, fullgraph=True)(*tensors)
        want = function(*[t.cpu().float() for t in tensors])
    torch.testing.assert_close(result.cpu().float(), want, atol=atol, rtol=rtol)
    return result


def loops(tmp_path):
    """Of every kernel: its name and the counts of the loops around it."""
    lines = (tmp_path / "segment0.loop").read_text().splitlines()
    ops = [line for line in lines if line.startswith("op ")]
    return [
        (line.split()[2], [int(n) for n in re.findall(r"in\(t\d+<(\d+)", line)]) for line in ops
    ]


def test_product_in_tiles_of_rows_and_sums(tensor, tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))

    def function(x, y, z):
        with tiles(M=8):
            with tiles(K=4):
                p = x @ y
            return p + z

    check(function, tensor("M,K", 0.1), tensor("K,N"), tensor("M,N"))
    assert loops(tmp_path) == [
        ("identity", [8]),
        ("batchmatmul", [8, 4]),
        ("add", [8, 4]),
        ("add", [8]),
    ]


@pytest.mark.parametrize("keyword", ["num_tiles_per_dim", "tiles", "slices"])
def test_old_keywords(tensor, keyword, tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))

    def function(x, y):
        with spyre_hint(**{keyword: {"N": 2}}):
            return torch.relu(x @ y)

    check(function, tensor("M,K", 0.1), tensor("K,N"))
    assert loops(tmp_path) == [("batchmatmul", [2]), ("relufwd", [2])]


@pytest.mark.parametrize("outer, inner", [("M", 8), ("K", 4), ("K", 2)])
def test_softmax(tensor, outer, inner):
    def function(x):
        with tiles(**{outer: 2}), tiles(M=inner):
            return torch.softmax(x, -1)

    check(function, tensor("M,K"), atol=0.002)


def flash(q, k, v):
    """Attention with sums that a caller could carry on from."""
    with tiles(Heads=2), tiles(T=2):
        most = torch.full((2, 4, 128, 1), -60000.0, dtype=q.dtype, device=q.device)
        total = torch.zeros((2, 4, 128, 1), dtype=q.dtype, device=q.device)
        scores = q @ k.transpose(-1, -2) * 0.125
        new = torch.maximum(most, scores.amax(-1, keepdim=True))
        shift, weights = torch.exp(most - new), torch.exp(scores - new)
        total = total * shift + weights.sum(-1, keepdim=True)
        return weights @ v / total


def test_attention_is_one_pass_over_the_keys(tensor, tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))
    inputs = tensor("B,Heads,Q,D"), tensor("B,Heads,T,D"), tensor("B,Heads,T,D")
    results = []
    for unroll in (True, False):
        with config.patch(unroll_loops=unroll):
            results.append(check(flash, *inputs).cpu())
    assert torch.equal(*results)
    kernels = loops(tmp_path)
    assert {tuple(counts) for name, counts in kernels if "matmul" in name} == {(2, 2)}
    text = (tmp_path / "segment0.loop").read_text()
    assert len(set(re.findall(r"in\(t(\d+)<2 T\)", text))) == 1


def test_softmax_along_tiles_is_two_passes(tensor, tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))

    def function(x):
        with tiles(K=4):
            return torch.softmax(x, -1)

    x = tensor("M,K")
    host = x.cpu()
    host[:, :64] = float("-inf")  # the first tile adds nothing
    host[:, 100] = 9.0
    x.copy_(host)
    results = []
    for unroll in (True, False):
        with config.patch(unroll_loops=unroll):
            results.append(check(function, x, atol=0.002).cpu())
    assert torch.equal(*results)
    text = (tmp_path / "segment0.loop").read_text()
    assert set(re.findall(r"in\(t(\d+)<4 K\)", text)) == {"0", "1"}
    host[:] = float("-inf")
    x.copy_(host)
    assert not torch.compile(function)(x).cpu().isfinite().any()


REDUCTIONS = {
    "sum": lambda x, dim: x.sum(dim),
    "mean": lambda x, dim: x.mean(dim),
    "amax": lambda x, dim: x.amax(dim),
    "amin": lambda x, dim: x.amin(dim),
    "any": lambda x, dim: (x > 1).any(dim).to(x.dtype),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("tiled", ["M", "K"])
def test_reductions(tensor, name, dim, tiled):
    reduce = REDUCTIONS[name]

    def function(x):
        with tiles(**{tiled: 4}):
            return reduce(x, dim)

    check(function, tensor("M,K"), atol=0.06)


@pytest.mark.parametrize("inner", ["H", "K", None])
def test_mlp(tensor, inner):
    def function(x, a, b):
        with tiles(M=4):
            if inner is None:
                return F.gelu(x @ a) @ b + x
            with tiles(**{inner: 2}):
                return F.gelu(x @ a) @ b + x

    check(function, tensor("M,K"), tensor("K,H", 0.05), tensor("H,K", 0.05), atol=0.03)


def test_attention(tensor):
    def function(q, k, v):
        with tiles(B=2), tiles(Q=2):
            scores = torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1)
            return scores @ v

    check(function, tensor("B,Heads,Q,D"), tensor("B,Heads,T,D"), tensor("B,Heads,T,D"))


def test_loops_and_steps_give_the_same_bits(tensor):
    def function(x, a, b):
        with tiles(M=4), tiles(H=2):
            return torch.softmax(F.gelu(x @ a) @ b, -1)

    inputs = tensor("M,K"), tensor("K,H", 0.05), tensor("H,K", 0.05)
    results = []
    for unroll in (True, False):
        with config.patch(unroll_loops=unroll):
            results.append(check(function, *inputs).cpu())
    assert torch.equal(*results)


def test_attention_as_one_operator(tensor):
    def function(q, k, v):
        with tiles(Heads=2):
            return F.scaled_dot_product_attention(q, k, v)

    check(function, tensor("B,Heads,Q,D"), tensor("B,Heads,T,D"), tensor("B,Heads,T,D"))


def test_layer_norm(tensor):
    def function(x):
        with tiles(M=4):
            return F.layer_norm(x, (K,))

    check(function, tensor("M,K"))


def test_both_products_of_a_sum_are_hinted(tensor, tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))

    def function(x, y):
        with tiles(M=2):
            return x @ y + x @ y

    check(function, tensor("M,K", 0.1), tensor("K,N"))
    assert all(counts == [2] for _name, counts in loops(tmp_path))


def test_flat_tensors_have_the_names_of_their_storage(tensor, tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))
    flat = (torch.randn(M * K) * 0.1).half().to("spyre")
    name_tensor_dims(flat, ["M", "K"])

    def function(x, y):
        with tiles(M=8), tiles(K=4):
            return x.view(M, K) @ y

    check(function, flat, tensor("K,N"))
    assert ("batchmatmul", [8, 4]) in loops(tmp_path)


def test_flat_loops_are_parted(tensor, tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))
    flat = torch.randn(M * K).half().to("spyre")
    name_tensor_dims(flat, ["M", "K"])

    def function(x):
        with tiles(M=8), tiles(K=2):
            return torch.relu(x * 2) + x

    check(function, flat)
    assert all(counts == [8, 2] for _name, counts in loops(tmp_path))


def test_operators_without_inputs_take_names(tensor, tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))

    def function(x):
        with tiles(M=4):
            with spyre_hint(named_dims=["M", "K"]):
                twos = torch.full((M, K), 2.0, dtype=x.dtype, device=x.device)
            return x * twos

    check(function, tensor("M,K"))
    assert all(counts == [4] for _name, counts in loops(tmp_path))


def test_division_of_tiles(tensor, tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))

    def function(x, y):
        with tiles(M=4), spyre_hint(work_div={"M": 8, "N": 2}):
            return x @ y

    check(function, tensor("M,K", 0.1), tensor("K,N"))
    (line,) = [s for s in (tmp_path / "segment0.loop").read_text().splitlines() if " for(" in s]
    assert "c0<16 " in line and "split(c0/8" in line


def refusal(function, *tensors):
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(Exception) as raised:
        torch.compile(function, fullgraph=True)(*tensors)
    errors = (raised.value, raised.value.__cause__)
    assert any(isinstance(error, torch_spyre.Unsupported) for error in errors)
    return str(raised.value)


def test_sticks_are_whole_in_tiles(sizes):
    """The cheapest sticks of what 32 of 64 columns are put together from run along its rows."""
    declare_tensor_dim("R", 100)
    declare_tensor_dim("C", 64)
    halves = [torch.randn(100, 64).half().to("spyre") for _ in range(2)]
    for half in halves:
        name_tensor_dims(half, ["R", "C"])

    def function(x, y):
        with tiles(R=25):
            return torch.cat((x[:, :32], y[:, 32:]), 1) * 2

    check(function, *halves)


def test_impossible_tiles_are_refused(tensor):
    def thirds(x):
        with tiles(M=3):
            return x + 1

    def lanes(x):
        with tiles(K=8):
            return x + 1

    def moments(x):
        with tiles(K=4):
            return F.layer_norm(x, (K,))

    assert "tiles M=3" in refusal(thirds, tensor("M,K"))
    assert "the nearest count is 4" in refusal(lanes, tensor("M,K"))
    assert "are not combined tile by tile" in refusal(moments, tensor("M,K"))


@pytest.mark.parametrize("name", ["argmax", "argmin", "topk"])
def test_rankings_take_tiles_of_other_dims(tensor, name):
    def function(x):
        with tiles(K=4):
            y = x + x
            return y.topk(2, 1).values if name == "topk" else getattr(y, name)(1)

    message = refusal(function, tensor("M,K"))
    assert f"{name}." in message and "tiles K=4" in message
    assert "the ranks of tiles are not combined; tiles of another dim are possible" in message

    def kept(x):
        with tiles(M=4):
            y = x + x
            return y.topk(2, 1).values if name == "topk" else getattr(y, name)(1).float()

    check(kept, tensor("M,K"))


def test_a_reduction_of_the_host_has_no_tiles(tensor):
    def function(x):
        with tiles(K=4):
            return torch.ops.prims.xor_sum(x.to(torch.int32), [1])

    message = refusal(function, tensor("M,K"))
    assert ".xor_sum." in message and "tiles K=4" in message
    assert "no opfunc of the card combines the results of tiles" in message


@pytest.mark.host(HOST)
@pytest.mark.parametrize("keyword", ["num_tiles_per_dim", "work_div"])
def test_hints_around_an_operator_of_the_host_are_reported(tensor, capfd, keyword):
    def function(x):
        with spyre_hint(**{keyword: {"M": 2}}):
            return on_host(x)

    torch.compile(function)(tensor("M,K"))
    message = capfd.readouterr().err
    assert f"{HOST}.default" in message and "M=2 has no effect on the host: " in message


def test_slices_of_tiles_that_cannot_be_are_refused(tensor):
    def function(x, y):
        with tiles(M=8), spyre_hint(work_div={"M": 16}):
            return x @ y

    assert "work_div M=16: does not divide" in refusal(function, tensor("M,K"), tensor("K,N"))


def test_unknown_dims_are_left_out_with_a_warning(tensor, capfd):
    def function(x):
        with tiles(N=4):
            return x + 1

    check(function, tensor("M,K"))
    message = capfd.readouterr().err
    assert "tiles N=4" in message and "loops of the segment are named M, K" in message


@pytest.mark.parametrize("count", [0, -1, 2.5, True, "2", 2**70])
def test_counts_are_whole_numbers(count):
    with pytest.raises(torch_spyre.Unsupported, match="whole numbers from 1 on"):
        tiles(M=count)


def test_a_scope_tiles_one_dim():
    with pytest.raises(NotImplementedError, match="one dim a scope"):
        tiles(M=2, K=2)
    with pytest.raises(TypeError, match="are one keyword"):
        spyre_hint(tiles={"M": 2}, slices={"M": 2})
    with pytest.raises(TypeError, match="spyre_hint takes"):
        spyre_hint(tile={"M": 2})
    with pytest.raises(TypeError, match="named_dims='MK': expected a list"):
        spyre_hint(named_dims="MK")


def test_names_make_up_dims():
    flat = torch.zeros(M * K, dtype=torch.float16)
    name_tensor_dims(flat, ["K", "M"])
    with pytest.raises(ValueError, match=r"\['N'\] are names without a dim"):
        name_tensor_dims(flat, ["M", "K", "N"])
    with pytest.raises(ValueError, match="dim N of size 16384 is declared with size 128"):
        name_tensor_dims(flat, ["N"])
    with pytest.raises(ValueError, match="dim K of size 64 is declared with size 256"):
        name_tensor_dims(torch.zeros(M), ["K"])


def test_names_are_given_where_the_function_is_compiled(sizes, tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))

    def function(x, y):
        x = name_tensor_dims(x, ["M", "K"])
        with tiles(M=8):
            return x * y

    x, y = (torch.randn(M, K).half().to("spyre") for _ in range(2))
    check(function, x, y)
    assert loops(tmp_path) == [("mul", [8])]
    torch.compile(function, backend="aot_eager")(x.cpu(), y.cpu())


def test_names_of_computed_tensors_are_not_given(tensor):
    def function(x):
        y = name_tensor_dims(x + 1, ["M", "K"])
        with tiles(M=8):
            return y * 2

    with pytest.raises(Exception, match="names of computed tensors follow"):
        torch.compile(function)(tensor("M,K"))


def test_dims_of_size_1_take_any_name(tensor, tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))
    row = name_tensor_dims(torch.randn(1, K).half().to("spyre"), ["M", "K"])

    def function(x, row):
        with tiles(M=8):
            return x + row

    check(function, tensor("M,K"), row)
    assert loops(tmp_path) == [("add", [8])]


@pytest.mark.parametrize("like", [False, True])
def test_named_dims_need_no_declaration(like, tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))

    def function(x):
        with spyre_hint(tiles={"Rows": 4}, named_dims=["Rows", "Columns"]):
            full = torch.full_like(x, 2) if like else torch.full((M, K), 2.0, device=x.device)
        return x + full.half()

    check(function, torch.randn(M, K).half().to("spyre"))
    assert [4] in [counts for _name, counts in loops(tmp_path)]


def test_the_published_example(tmp_path, monkeypatch):
    """torch-spyre's docs/source/compiler/coarse_tiling_loops.md, "Small Example": y = a + b never
    leaves LX, and one map has the strides of both loops, of 512 rows and of 16 sticks."""
    made = []
    monkeypatch.setattr(call_compiler, "observers", [made.append])
    declare_tensor_dim("A", 1024)
    declare_tensor_dim("B", 4096)
    inputs = [torch.randn(1024, 4096).half().to("spyre") for _ in range(3)]
    for tensor in inputs:
        name_tensor_dims(tensor, ["A", "B"])

    def function(a, b, c):
        with tiles(A=2), tiles(B=4):
            return (a + b) * c

    with config.patch(sencores=4, unroll_loops=False):
        check(function, *inputs, atol=0.1)
    made[0].write(0, "bundle", str(tmp_path / "bundle"))
    text = (tmp_path / "bundle" / "bundle.mlir").read_text()
    assert text.startswith("#map_0 = affine_map<(d0, d1)[s0] -> (s0 + 65536*d0 + 2097152*d1)>\n")
    assert text.count("scf.for") == text.count("sdsc_execute") == 2 and "#map_1" not in text
    (outer,) = json.loads(made[0].text(0, "opspec"))["specs"]
    (inner,) = outer["body"]
    assert (outer["count"], inner["count"]) == (2, 4)
    add, mul = inner["body"]
    assert add["args"][2]["allocation"] == mul["args"][0]["allocation"] == {"lx": 0}
    assert add["tiled_symbols"] == mul["tiled_symbols"] == ["c0", "c1"]


def test_long_spans_are_tiled_without_a_hint(tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))
    torch.manual_seed(0)
    x = torch.randn(1024, 512).half().to("spyre")
    with config.patch(max_span_bytes=64 << 10, sencores=2):
        check(lambda x: torch.softmax(x * 2 + x, -1), x)
    kernels = dict(loops(tmp_path))
    assert math.prod(kernels["mul"]) == math.prod(kernels["max"]) == 8


def test_a_scope_whose_operators_all_vanish_is_named(tensor):
    def fn(x):
        with tiles(M=8):
            same = x.clone().view(M, K)
        with tiles(M=4):
            torch.ops.aten.mul(x, 3)  # nobody reads it
        return same + 1

    with pytest.warns(UserWarning, match=r"spyre_hint of M=4 \(.*none of its operators is left"):
        check(fn, tensor("M,K"))


def test_inputs_without_names_under_a_hint_are_listed(tensor):
    def fn(x, y):
        with tiles(M=8):
            return x + y

    unnamed = torch.randn(M, K).half().to("spyre")
    with pytest.warns(UserWarning, match=rf"no names: \w+ of size \({M}, {K}\) \(.*test_tiling"):
        check(fn, tensor("M,K"), unnamed)


def test_a_hint_on_named_inputs_warns_of_nothing(tensor, recwarn):
    def fn(x, y):
        with tiles(M=8):
            return x @ y

    check(fn, tensor("M,K"), tensor("K,N"))
    assert not [w for w in recwarn if "spyre_hint" in str(w.message)]
