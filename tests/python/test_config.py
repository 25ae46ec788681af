# SPDX-License-Identifier: Apache-2.0
"""torch_spyre._inductor.config: every setting's variable is read, and every one can be patched."""

import re
import threading

import pytest
import torch
import torch_spyre
from host_ops import HOST, on_host
from torch_spyre import _C, config, environment
from torch_spyre._inductor import spyre_hint
from torch_spyre._inductor.wsr.propagate_named_dims import declare_tensor_dim, name_tensor_dims
from torch_spyre.compile import call_compiler

SETTINGS = {name: (variable, default, rule) for name, variable, default, rule, _s in _C.settings()}
# torch-spyre's variables of the compiler that mean something here.
PUBLISHED = {
    "sencores": "SENCORES",
    "lx_planning": "LX_PLANNING",
    "dxp_lx_frac_avail": "DXP_LX_FRAC_AVAIL",
    "co_optimizing_lx_planning": "CO_OPTIMIZING_LX_PLANNING",
    "lx_boundary_clones": "LX_BOUNDARY_CLONES",
    "lx_planner_relayout": "SPYRE_LX_PLANNER_RELAYOUT",
    "global_stick_optimizer": "GLOBAL_STICK_OPTIMIZER",
    "chunk_large_tensors": "CHUNK_LARGE_TENSORS",
    "memory_plan": "SPYRE_INDUCTOR_MEMORY_PLAN",
    "ignore_work_division_hints": "SPYRE_INDUCTOR_IGNORE_HINTS",
    "core_id_k_fast_emission": "SPYRE_CORE_ID_K_FAST_EMISSION",
    "bundle_symbolic_args": "BUNDLE_SYMBOLIC_ARGS",
    "unroll_loops": "UNROLL_LOOPS",
    "validate_graph_invariants": "SPYRE_VALIDATE_GRAPH",
    "layout_solver": "LAYOUT_SOLVER",
    "allow_all_ops_in_lx_planning": "",
    "enable_fusion": "SPYRE_INDUCTOR_ENABLE_FUSION",
    "ignore_wsr_hints": "SPYRE_INDUCTOR_IGNORE_HINTS",
    "ignore_span_overflow_hints": "SPYRE_INDUCTOR_IGNORE_SPAN_OVERFLOW_HINTS",
    "enable_reduction_tiling": "SPYRE_INDUCTOR_ENABLE_REDUCTION_TILING",
}


def other(name):
    """A value that the setting does not have by default, as text."""
    _variable, default, rule = SETTINGS[name]
    if rule == "0 or 1":
        return "1" if default == "0" else "0"
    if rule.startswith("one of"):
        return rule.split()[-1].split("=")[-1]
    return "3" if rule.startswith("a whole") else "0.5"


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_names_and_variables(name):
    assert SETTINGS[name][0] == PUBLISHED[name]


def test_every_setting_can_be_patched():
    x = torch.ones(4, 64, dtype=torch.half).to("spyre")
    for name in set(SETTINGS) - {"skip_passes", "max_span_bytes"}:
        torch._dynamo.reset()
        before = getattr(config, name)
        value = other(name)
        typed = type(before)(float(value)) if isinstance(before, (int, float)) else value
        with config.patch({name: typed}):
            assert getattr(config, name) == typed != before
            assert torch.compile(lambda x: x * 2 + 1)(x).cpu()[0, 0] == 3
        assert getattr(config, name) == before


@pytest.mark.parametrize("name", ["nonsense", "normalize_loops"])
def test_skipped_passes_are_checked(name):
    with pytest.raises(ValueError, match=f"config.skip_passes='{name}': .*skip_passes: .*{name}"):
        config.skip_passes = name


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("sencores", 0, "expected a whole number 1..32"),
        ("sencores", "none", "expected a whole number 1..32"),
        ("sencores", 1.5, "expected a whole number 1..32"),
        ("lx_planning", 3, "expected 0 or 1"),
        ("hbm_pool_planning", "maybe", "expected 0 or 1"),
        ("layout_solver", "luck", "expected one of search"),
        ("fallback", "maybe", "expected one of warn, error, silent"),
        ("eager_bytes", -1, "expected bytes like 64M"),
        ("graph_bytes", "1G", "expected bytes like 64M"),
        ("max_buckets", True, "expected a whole number from 1 on"),
        ("symbolic_programs", 1, "expected True or False"),
        ("spyre_instrument_ops", "aten.mm", "expected a list of operators"),
        ("log_passes", None, "expected text"),
    ],
)
def test_values_are_checked_where_they_are_assigned(name, value, rule):
    before = {key: getattr(config, key) for key in (name, "uneven_splits")}
    with pytest.raises(ValueError, match=f"torch_spyre.config.{name}={value!r}: {rule}"):
        setattr(config, name, value)
    with pytest.raises(ValueError, match=name):
        config.patch({"uneven_splits": True, name: value}).__enter__()
    assert {key: getattr(config, key) for key in before} == before


def test_every_attribute_has_a_rule():
    from torch_spyre import setting_rules
    from torch_spyre.compile import options

    names = set(options.known_settings()) - set(SETTINGS) - {"hbm_pool_planning"}
    assert names == set(setting_rules._PYTHON)
    for name in options.known_settings():
        setting_rules.check(name, getattr(config, name))


def test_a_newer_name_is_the_same_setting():
    assert config.hbm_pool_planning is config.memory_plan is True
    with config.patch(hbm_pool_planning=False):
        assert config.memory_plan is False
    assert config.memory_plan is True


def test_variables_are_read_at_import(run_python):
    variables = {variable: other(n) for n, (variable, _d, _r) in SETTINGS.items()
                 if variable and n != "skip_passes"}  # fmt: skip
    names = {n: variable for n, (variable, _d, _r) in SETTINGS.items() if variable in variables}
    source = (
        "from torch_spyre._inductor import config\n"
        f"for name in {list(names)!r}: print(name, getattr(config, name))\n"
    )
    lines = dict(
        line.split() for line in run_python(source, **variables).stdout.splitlines() if " " in line
    )
    for name, variable in names.items():
        wanted = {"True": "1", "False": "0"}.get(lines[name], lines[name])
        assert wanted == variables[variable], name


def test_variables_of_the_python_side(run_python):
    source = (
        "from torch_spyre._inductor import config as c\n"
        "print(c.max_buckets, c.min_default_granularity, c.log_passes, c.memory_plan, "
        "c.enable_fusion)"
    )
    assert "32 4  True True" in run_python(source).stdout
    variables = {"MAX_BUCKETS": "8", "MIN_DEFAULT_GRANULARITY": "16", "SPYRE_LOG_PASSES": "all",
                 "HBM_POOL_PLANNING": "no", "SPYRE_INDUCTOR_ENABLE_FUSION": "False"}  # fmt: skip
    assert "8 16 all False False" in run_python(source, **variables).stdout


@pytest.mark.parametrize("variable", ["SPYRE_DUMP_COST", "SPYRE_KERNEL_FILES", "DUMP_SPYRE_CODE"])
def test_switches_are_on_or_off(variable, monkeypatch):
    for text, on in [("1", True), ("YES", True), ("0", False), ("off", False), ("", False)]:
        monkeypatch.setenv(variable, text)
        assert environment.flag(variable) is on
    monkeypatch.setenv(variable, "maybe")
    with pytest.raises(ValueError, match=f"{variable}=maybe: expected 0 or 1"):
        environment.flag(variable)


@pytest.mark.parametrize("solver", ["cpsat", "simulated_annealing"])
def test_solvers_have_the_names_of_torch_spyre_too(solver):
    x = torch.ones(4, 64, dtype=torch.half).to("spyre")
    torch._dynamo.reset()
    with config.patch(layout_solver=solver):
        assert torch.compile(lambda x: x * 2 + 1)(x).cpu()[0, 0] == 3


def test_stages_that_cannot_be_written_are_no_reason_for_the_cpu(monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", "/dev/null/stages")
    x = torch.ones(3, 64, dtype=torch.half).to("spyre")
    with pytest.raises(OSError, match="SPYRE_DUMP_DIR=/dev/null/stages: cannot make directory"):
        torch.hypot(x, x * 0.37)


def test_a_compile_worker_says_that_it_has_no_card(run_python):
    source = """
import torch
try:
    torch.ones(2, device="spyre")
except RuntimeError as error:
    print(error)
"""
    done = run_python(source, IS_INDUCTOR_SPAWNED_SUBPROCESS="1")
    assert "a worker of the compiler (IS_INDUCTOR_SPAWNED_SUBPROCESS=1)" in done.stdout


@pytest.mark.host(HOST)
def test_without_fusion_every_operation_is_a_program():
    def chain(x, w):
        y = torch.softmax(x @ w, dim=-1) + 1
        return y.exp(), on_host(y) * 2

    torch.manual_seed(0)
    x, w = (torch.randn(64, 64, dtype=torch.half).to("spyre") for _ in range(2))
    results, reports = [], []
    for fused in (True, False):
        torch._dynamo.reset()
        with config.patch(enable_fusion=fused):
            results.append([r.cpu() for r in torch.compile(chain, dynamic=False)(x, w)])
        reports.append(torch_spyre.last_report())
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert reports[0].card_segments == 2
    assert reports[1].card_segments == reports[1].kernels == reports[0].kernels == 9


def test_bundles_of_few_launch_arguments():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 2, 128, batch_first=True, activation="gelu")
    layer = layer.half().eval().to("spyre")
    x = torch.randn(2, 16, 64, dtype=torch.half).to("spyre")
    results, segments, executables = [], [], []
    call_compiler.observers.append(executables.append)
    try:
        for most in (0, 6):
            torch._dynamo.reset()
            executables.clear()
            with config.patch(max_launch_arguments=most), torch.no_grad():
                results.append(torch.compile(layer, dynamic=False)(x).cpu())
            segments.append(torch_spyre.last_report().card_segments)
    finally:
        call_compiler.observers.remove(executables.append)
    assert torch.equal(*results)
    assert segments[0] == 1 and segments[1] > 2
    (executable,) = executables
    bundles = [executable.text(index, "bundle") for index in range(executable.segment_count())]
    arguments = [int(re.search(r"(\d+) launch arguments", bundle)[1]) for bundle in bundles]
    assert len(arguments) == segments[1] and max(arguments) <= 6


def test_tiles_are_left_out_with_the_other_hints():
    declare_tensor_dim("M", 64)
    x = torch.randn(64, 64, dtype=torch.half).to("spyre")
    name_tensor_dims(x, ["M", None])

    def tiled(x):
        with spyre_hint(num_tiles_per_dim={"M": 4}):
            return torch.exp(x) + 1

    kernels = []
    for ignored in (False, True):
        torch._dynamo.reset()
        with config.patch(ignore_wsr_hints=ignored):
            torch.compile(tiled, dynamic=False)(x)
        kernels.append(torch_spyre.last_report().kernels)
    assert kernels == [8, 2]


def test_reduced_dims_are_tiled_when_allowed():
    declare_tensor_dim("K", 128)
    x = torch.randn(64, 128, dtype=torch.half).to("spyre")
    w = torch.randn(128, 64, dtype=torch.half).to("spyre")
    name_tensor_dims(x, [None, "K"])

    def tiled(x, w):
        with spyre_hint(num_tiles_per_dim={"K": 2}):
            return x @ w

    torch._dynamo.reset()
    torch.compile(tiled, dynamic=False)(x, w)
    torch._dynamo.reset()
    refused = pytest.raises(torch_spyre.Unsupported, match="enable_reduction_tiling is off")
    with config.patch(enable_reduction_tiling=False), refused:
        torch.compile(tiled, dynamic=False)(x, w)


def test_threads_that_set_nothing_have_what_was_set_last():
    """As PyTorch's backward passes, which run in threads of their own."""
    seen = []

    def look():
        thread = threading.Thread(target=lambda: seen.append(config.sencores))
        thread.start()
        thread.join()

    look()
    with config.patch(sencores=7):
        look()
        with config.patch(sencores=5):
            look()
        look()
    look()
    assert seen == [config.sencores, 7, 5, 7, config.sencores]
