# SPDX-License-Identifier: Apache-2.0
"""torch_spyre._inductor.config: every setting's variable is read, and every one can be patched."""

import pytest
import torch
from torch_spyre import _C
from torch_spyre._inductor import config

SETTINGS = {name: (variable, default, rule) for name, variable, default, rule, _s in _C.settings()}
# torch-spyre's variables of the compiler that mean something here.
PUBLISHED = {
    "sencores": "SENCORES",
    "lx_planning": "LX_PLANNING",
    "dxp_lx_frac_avail": "DXP_LX_FRAC_AVAIL",
    "co_optimizing_lx_planning": "CO_OPTIMIZING_LX_PLANNING",
    "lx_boundary_clones": "LX_BOUNDARY_CLONES",
    "global_stick_optimizer": "GLOBAL_STICK_OPTIMIZER",
    "chunk_large_tensors": "CHUNK_LARGE_TENSORS",
    "memory_plan": "SPYRE_INDUCTOR_MEMORY_PLAN",
    "ignore_work_division_hints": "SPYRE_INDUCTOR_IGNORE_HINTS",
    "core_id_k_fast_emission": "SPYRE_CORE_ID_K_FAST_EMISSION",
    "bundle_symbolic_args": "BUNDLE_SYMBOLIC_ARGS",
    "unroll_loops": "UNROLL_LOOPS",
    "validate_graph_invariants": "SPYRE_VALIDATE_GRAPH",
    "layout_solver": "",
    "allow_all_ops_in_lx_planning": "",
}


def other(name):
    """A value that the setting does not have by default, as text."""
    _variable, default, rule = SETTINGS[name]
    if rule == "0 or 1":
        return "1" if default == "0" else "0"
    if rule.startswith("one of"):
        return rule.split()[-1]
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
