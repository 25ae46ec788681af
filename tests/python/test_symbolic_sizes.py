# SPDX-License-Identifier: Apache-2.0
"""One program for all sizes that a bundle leaves to the launch: a bundle with symbols is compiled
once, each launch corrects the program for the sizes of its arguments, and its results are those of
the program that was compiled for them, bit by bit."""

import itertools
import json
import pathlib
import subprocess
import sys

import pytest
import torch
import torch_spyre
from symbolic_bundle import Size, symbolize
from torch_spyre import _C
from torch_spyre.compile import call_compiler

SPYRE = pathlib.Path(sys.executable).parent / "spyre"
ROWS = Size("s0", 48, 240)
COLUMNS = Size("s1", 64, 320)
BATCH = Size("s2", 4, 12)
FEW = Size("s3", 4, 28)  # as many as there are cores


def numbers(*sizes, seed=1):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed)).half().to("spyre")


def compiled(directory):
    subprocess.run([SPYRE, "dxp", "--bundle", "-d", directory], check=True)
    return directory / "spyreCodeDir"


@pytest.fixture
def bundle_of(tmp_path):
    """bundle_of(function, sizes of its inputs at most) -> the directory of its bundle."""

    def make(function, sizes, cores=4):
        made = []
        call_compiler.observers.append(made.append)
        try:
            torch._dynamo.reset()
            with torch_spyre.config.patch(sencores=cores):
                largest = [numbers(*each) for each in sizes]
                torch.compile(function, dynamic=False)(*largest)
        finally:
            call_compiler.observers.pop()
        made[0].write(0, "bundle", str(tmp_path / "source"))
        return tmp_path / "source"

    return make


def at(sizes, values):
    """Sizes of a tensor with the symbols among them at their values."""
    return tuple(values[n.name] if isinstance(n, Size) else n for n in sizes)


def combinations(symbols):
    """All values of one size; of several the smallest, the largest and four between."""
    every = list(itertools.product(*(size.values for size in symbols)))
    chosen = every if len(symbols) == 1 else [*every[:: len(every) // 5], every[-1]]
    for each in chosen:
        yield {size.name: value for size, value in zip(symbols, each, strict=True)}


CASES = {
    "pointwise": (lambda x, y: torch.relu(x * y + y), [(ROWS, 128), (ROWS, 128)], (ROWS, 128)),
    "broadcast": (lambda x, y: x * y + x, [(ROWS, 128), (128,)], (ROWS, 128)),
    "one_row_a_core": (lambda x, y: x * y + x, [(FEW, 128), (FEW, 1)], (FEW, 128)),
    "columns": (lambda x, y: x * y, [(40, COLUMNS), (40, COLUMNS)], (40, COLUMNS)),
    "rows_and_columns": (lambda x, y: x + y, [(ROWS, COLUMNS)] * 2, (ROWS, COLUMNS)),
    "three_dims": (lambda x: x.relu(), [(BATCH, ROWS, COLUMNS)], (BATCH, ROWS, COLUMNS)),
    "sum_of_columns": (lambda x: x * x.sum(-1, keepdim=True), [(ROWS, 192)], (ROWS, 192)),
    "sum_of_rows": (lambda x: x.sum(0), [(ROWS, 128)], (128,)),
    "amax_of_columns": (lambda x: x - x.amax(-1, keepdim=True), [(40, COLUMNS)], (40, COLUMNS)),
    "softmax": (lambda x: x.softmax(-1), [(ROWS, 192)], (ROWS, 192)),
    "matmul_rows": (lambda a, b: a @ b, [(ROWS, 128), (128, 192)], (ROWS, 192)),
    "matmul_columns": (lambda a, b: a @ b, [(64, 128), (128, COLUMNS)], (64, COLUMNS)),
    "matmul_depth": (lambda a, b: a @ b, [(64, COLUMNS), (COLUMNS, 128)], (64, 128)),
    "square": (lambda a, b: a @ b, [(COLUMNS, 128), (128, COLUMNS)], (COLUMNS, COLUMNS)),
    "products": (lambda a, b: a @ b, [(BATCH, 64, 128), (BATCH, 128, 64)], (BATCH, 64, 64)),
    "transpose": (lambda x: x.t().contiguous(), [(COLUMNS, 192)], (192, COLUMNS)),
}


@pytest.mark.parametrize(
    ("case", "opens"),
    [*((case, False) for case in CASES), ("pointwise", True), ("rows_and_columns", True)],
)
def test_one_program_for_all_sizes(bundle_of, tmp_path, case, opens):
    function, inputs, output = CASES[case]
    symbols = list({n.name: n for each in inputs for n in each if isinstance(n, Size)}.values())
    source = bundle_of(function, [at(each, {s.name: s.most for s in symbols}) for each in inputs])
    symbolize(source, tmp_path / "any", symbols, opens=opens)
    code = compiled(tmp_path / "any")
    assert (code / "init.bin").exists(), "the bundle waits for sizes"
    any_size = _C.prepare_kernel(str(code))
    for number, values in enumerate(combinations(symbols)):
        operands = [numbers(*at(each, values), seed=n) for n, each in enumerate(inputs)]
        symbolize(source, tmp_path / str(number), symbols, values)
        alone = _C.prepare_kernel(str(compiled(tmp_path / str(number))))
        out, expected = (
            torch.zeros(at(output, values), dtype=torch.float16, device="spyre") for _ in range(2)
        )
        _C.launch_jobplan(any_size, [*operands, out])
        _C.launch_jobplan(alone, [*operands, expected])
        assert torch.equal(out.cpu(), expected.cpu()), values
        torch.testing.assert_close(
            out.cpu(), function(*(x.cpu() for x in operands)), rtol=0.02, atol=0.25
        )


def test_a_mean_is_of_the_elements_that_there_are(bundle_of, tmp_path):
    source = bundle_of(lambda x: x.mean(0), [(240, 128)])
    symbolize(source, tmp_path / "any", [ROWS])
    code = compiled(tmp_path / "any")
    assert (code / "init.bin").exists(), "the bundle waits for sizes"
    plan = _C.prepare_kernel(str(code))
    for rows in ROWS.values:
        x, out = numbers(rows, 128), torch.zeros(128, dtype=torch.float16, device="spyre")
        _C.launch_jobplan(plan, [x, out])
        torch.testing.assert_close(out.cpu(), x.cpu().mean(0), rtol=0.004, atol=0.001)


CUBE = Size("s4", 64, 256)


@pytest.fixture
def product(bundle_of, tmp_path):
    """The plan of a product of ROWS rows, and its directory."""
    source = bundle_of(lambda a, b: a @ b, [(240, 128), (128, 192)])
    symbolize(source, tmp_path / "any", [ROWS])
    return _C.prepare_kernel(str(compiled(tmp_path / "any")))


@pytest.mark.parametrize(
    ("a", "out", "rule"),
    [
        (100, 100, "0 has 25600 bytes .* of 12288 to 61440 .* s0 a multiple of 48 up to 240"),
        (288, 288, "0 has 73728 bytes .* s0 a multiple of 48 up to 240"),
        (24, 24, "0 has 6144 bytes .* s0 a multiple of 48 up to 240"),
        (96, 48, "do not agree about sizes"),
    ],
)
def test_other_sizes_are_refused(product, a, out, rule):
    result = torch.zeros(out, 192, dtype=torch.float16, device="spyre")
    with pytest.raises(ValueError, match=rule):
        _C.launch_jobplan(product, [numbers(a, 128), numbers(128, 192), result])
    assert not result.cpu().any()


def test_the_plan_says_how_it_is_corrected(bundle_of, tmp_path):
    source = bundle_of(lambda x, y: x * y + x, [(240, 128), (240, 128)])
    symbolize(source, tmp_path / "any", [ROWS])
    code = compiled(tmp_path / "any")
    plan = json.loads((code / "spyrecode.json").read_text())["JobExecPlan"]
    assert [step["command"] for step in plan] == [
        "ComputeOnHost",
        "DataTransfer",
        "ComputeOnDevice",
    ]
    host, transfer = plan[0]["properties"], plan[1]["properties"]
    assert host["hcm"]["symbols"] == [{"name": "s0", "granularity": "48", "most": "240"}]
    sources = [patch["source"] for patch in host["hcm"]["patches"]]
    assert sources[:3] == ["argument"] * 3 and "sizes" in sources
    assert int(transfer["size"]) == int(host["size"]) == 8 * len(sources)
    listing = subprocess.run(
        [SPYRE, "inspect", code / "init.bin"], check=True, capture_output=True, text=True
    ).stdout
    assert "values " in listing and "correct " in listing
    told = subprocess.run(
        [SPYRE, "inspect", code], check=True, capture_output=True, text=True
    ).stdout
    assert "size s0: a multiple of 48 up to 240" in told and " s0\n" in told


def test_sizes_of_two_forms_are_compiled_at_the_launch(bundle_of, tmp_path):
    """The cube of a size is no sum of products of sizes and their squares."""
    source = bundle_of(lambda x, y: x + y, [(256, 256, 256)] * 2, cores=1)
    symbolize(source, tmp_path / "any", [CUBE])
    plan = _C.prepare_kernel(str(compiled(tmp_path / "any")))
    for n in list(CUBE.values)[:2]:
        x, y = numbers(n, n, n), numbers(n, n, n, seed=2)
        out = torch.zeros_like(x)
        _C.launch_jobplan(plan, [x, y, out])
        assert torch.equal(out.cpu(), (x + y).cpu())


LOOP = """#map_0 = affine_map<(d0)[s0] -> (s0 + 128*d0)>
module {{
\tfunc.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>, \
%arg_1_base_addr: !sdscbundle.input_arg<index>, %dim_base: {kind}) {{
\t\t%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr
\t\t%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr
\t\t%dim = sdscbundle.input_arg_extract value from %dim_base : {kind} -> index
\t\t%c0 = arith.constant 0 : index
\t\t%step = sdscbundle.input_arg_extract granularity from %dim_base : {kind} -> index
\t\tscf.for %i = %c0 to %dim step %step {{
\t\t\t%a = affine.apply #map_0(%i)[%arg_0]
\t\t\t%b = affine.apply #map_0(%i)[%arg_1]
\t\t\tsdscbundle.sdsc_execute (%a, %b) {{sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2]}}
\t\t}}
\t\treturn
\t}}
}}
"""


def test_a_loop_over_as_many_tiles_as_a_tensor_has(bundle_of, tmp_path):
    source = bundle_of(lambda x: x.relu(), [(32, 64)], cores=1)
    path = source / "sdsc_0.json"
    whole = json.loads(path.read_text())
    ((_op, dsc),) = next(iter(whole.values()))["dscs_"][0].items()
    for number, node in enumerate(dsc["scheduleTree_"]):
        node["startAddressCoreCorelet_"]["data_"] = {"[0, 0, 0]": str(-1 - number)}
    path.write_text(json.dumps(whole))
    kind = "!sdscbundle.input_arg<index, granularity=32, max_value=256>"
    (source / "bundle.mlir").write_text(LOOP.format(kind=kind))
    code = compiled(source)
    assert (code / "init.bin").exists()
    plan = _C.prepare_kernel(str(code))
    for n in (32, 96, 256):
        x = numbers(n, 64)
        out = torch.zeros_like(x)
        _C.launch_jobplan(plan, [x, out])
        assert torch.equal(out.cpu(), x.relu().cpu()), n
    x = numbers(80, 64)
    with pytest.raises(ValueError, match="dim a multiple of 32 up to 256"):
        _C.launch_jobplan(plan, [x, torch.zeros_like(x)])


LENGTHS_AS_NUMBERS = {
    "head": lambda x, n: x[:n] * 2,
    "tail": lambda x, n: x[x.shape[0] - n :] * 2,
    "columns": lambda x, n: x[:, :n] + 1,
    "joined": lambda x, n: torch.cat([x[:n], x]),
    "product": lambda x, n: x[:, :n] @ x[:n],
    "split": lambda x, n: torch.cat(x.split([n, x.shape[0] - n])[::-1]),
    "sum": lambda x, n: x[:n].sum(0),
    "written": lambda x, n: x.clone().narrow(0, 0, n).fill_(3),
    "padded": lambda x, n: torch.nn.functional.pad(x, (0, 0, 0, n)),
    "made": lambda x, n: torch.zeros(n, 64, device=x.device, dtype=x.dtype) + x[:1],
}


@pytest.mark.parametrize("name", LENGTHS_AS_NUMBERS)
def test_a_length_that_is_a_number_may_be_none_a_stick_or_all(name):
    """96 rows have one multiple of 64 elements below them, and a length may be 0."""
    form = LENGTHS_AS_NUMBERS[name]
    x = torch.randint(-4, 5, (96, 64), generator=torch.Generator().manual_seed(0)).half()
    on_card = x.to("spyre")
    torch._dynamo.reset()
    compiled = torch.compile(form)
    for n in (5, 0, 7, 64, 63, 1, 0, 33):
        assert torch.equal(compiled(on_card, n).cpu(), form(x, n)), n
