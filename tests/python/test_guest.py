# SPDX-License-Identifier: Apache-2.0
"""Programs that never touch the device: with the package loaded by `import torch` everything is as
without it, but for what registering a device entails (docs/python.md)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = Path(__file__).with_name("guest_probe.py")
ADDED = {  # by PyTorch for every device, and one of torch-spyre's
    "torch.Tensor.spyre", "torch.nn.Parameter.spyre", "torch.nn.Module.spyre",
    "torch.UntypedStorage.spyre", "torch.TypedStorage.spyre",
    "torch.Tensor.device_tensor_layout", "torch.nn.Parameter.device_tensor_layout",
}  # fmt: skip
LIGHT = {
    "torch_spyre", "torch_spyre._C", "torch_spyre.constants", "torch_spyre.registration",
    "torch_spyre._pytorch", "torch_spyre._pytorch.dispatch", "torch_spyre._pytorch.logs",
    "torch_spyre._pytorch.patches", "torch_spyre._pytorch.compile_options",
    "torch_spyre._pytorch.distributed", "torch_spyre._pytorch.dynamo",
    "torch_spyre._pytorch.dynamo_interface", "torch_spyre._pytorch.inductor",
    "torch_spyre._pytorch.inductor.inductor_modules",
    "torch_spyre.device", "torch_spyre.device.memory", "torch_spyre.device.placement",
    "torch_spyre.device.namespace", "torch_spyre.device.properties", "torch_spyre.device.random",
    "torch_spyre.device.streams",
}  # fmt: skip
OWN = ("SPYRE", "TORCH_LOGS", "TORCH_SPYRE", "TORCHINDUCTOR_FORCE_DISABLE_CACHES")


def start(autoload: bool, *parts: str, **variables: str) -> subprocess.Popen:
    environment = {name: v for name, v in os.environ.items() if not name.startswith(OWN)}
    environment |= {"TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(autoload)), **variables}
    command = [sys.executable, "-W", "ignore", str(PROBE), *parts]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def probe(*parts: str, **variables: str) -> tuple[dict, dict]:
    """What a program sees without the package and with it."""
    running = [start(autoload, *parts, **variables) for autoload in (False, True)]
    texts = [process.communicate(timeout=600)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    without, with_it = (json.loads(text) for text in texts)
    for found in (without, with_it):
        del found["left behind"]["environ"]["TORCH_DEVICE_BACKEND_AUTOLOAD"]
        del found["still left behind"]["environ"]["TORCH_DEVICE_BACKEND_AUTOLOAD"]
    return without, with_it


@pytest.fixture(scope="module")
def plain():
    return probe("jit")


def test_functions_of_pytorch_are_its_own(plain):
    without, with_it = (found["functions"] for found in plain)
    assert set(with_it) - set(without) == ADDED
    changed = {name: (without[name], with_it[name]) for name in without
               if without[name] != with_it.get(name)}  # fmt: skip
    assert not changed and len(without) > 3000


def test_nothing_is_left_in_the_process(plain):
    without, with_it = plain
    for key in ("left behind", "still left behind"):
        assert with_it[key] == without[key], key
    assert with_it["unchanged"]["environ"]


@pytest.mark.parametrize("part", ["devices", "printed", "pickles", "numbers", "scripted"])
def test_what_is_computed_is_the_same(plain, part):
    without, with_it = plain
    assert with_it[part] == without[part] and len(without[part]) > 2


@pytest.mark.parametrize(
    "use",
    [
        "torch.nn.Linear(70, 130).half().to('spyre')",
        "torch.nn.Linear(70, 130).half().spyre()",
        "torch.ops.spyre.silu_mul(torch.ones(2), torch.ones(2))",
        "torch.tril_indices(2, 2, device='spyre')",
        "torch.compile(lambda: torch.ones(4, device='spyre:0') + 1)().cpu()",
        "torch.load(FILE, map_location='spyre').cpu()",
        "torch.jit.script(make)(3)",
        "torch_spyre._C.get_device_dtype(torch.half)",
        "torch_spyre.DataFormats.SEN169_FP16",
        "torch.autocast('spyre').__enter__()",
    ],
)
def test_the_first_use_may_be_anything(run_python, use, tmp_path):
    file = str(tmp_path / "x.pt")
    run_python(
        "import torch, torch_spyre\n"
        "from guest_first_use import make\n"
        f"FILE = {file!r}\ntorch.save(torch.ones(3), FILE)\n{use}\n",
        PYTHONPATH=str(PROBE.parent),
    )


def test_import_brings_little(plain):
    _without, with_it = plain
    assert set(with_it["modules"]) == LIGHT


def test_compiled_for_the_cpu_is_the_same():
    without, with_it = probe("compile")
    assert with_it["compiled"] == without["compiled"]
    assert len(without["compiled"]["graph"]) == 1


def test_variables_of_the_package_change_nothing_else():
    """Settings of the device, of PyTorch's caches, and of loggers that do not exist."""
    without, with_it = probe(
        SENCORES="4", SPYRE_CACHE_DIR="/nowhere", TORCHINDUCTOR_FORCE_DISABLE_CACHES="1"
    )
    assert with_it["still left behind"] == without["still left behind"]


PRELUDE = "import torch\nimport logging\n"
LEVELS = "print([logging.getLogger(n).getEffectiveLevel() for n in NAMES])\n"


@pytest.mark.parametrize(
    ("entries", "levels"),
    [
        ("spyre.inductor:DEBUG", [10, 10, 30, 30]),
        ("spyre.inductor:debug, dynamo", [10, 10, 30, 20]),
        ("+torch_spyre.inductor.passes", [30, 10, 30, 30]),
        ("+spyre,-dynamo", [10, 10, 10, 40]),
        ("-torch_spyre.runtime,spyre.inductor", [20, 20, 40, 30]),
    ],
)
@pytest.mark.parametrize(
    "first", ["", pytest.param("import torch_spyre\n", marks=pytest.mark.long)]
)
def test_torch_logs_names_loggers(run_python, entries, levels, first):
    names = "spyre.inductor", "spyre.inductor.passes", "spyre.runtime", "torch._dynamo"
    done = run_python(first + PRELUDE + f"NAMES = {names}\n" + LEVELS, TORCH_LOGS=entries)
    assert done.stdout.strip() == str(levels)
    assert done.stderr == ""


@pytest.mark.parametrize("entries", ["no_such_module_at_all", "dynamo:DEBUG"])
def test_other_entries_are_refused_by_pytorch(entries):
    """With PyTorch's own error, as without the package."""
    errors = []
    for autoload in "01":
        done = subprocess.run(
            [sys.executable, "-c", "import torch"],
            env={**os.environ, "TORCH_LOGS": entries, "TORCH_DEVICE_BACKEND_AUTOLOAD": autoload},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 1
        errors.append(done.stderr.strip().splitlines()[-1])
    assert errors[0] == errors[1]


AFTER_USE = """
import copy, io, pickle
import torch
original = torch.empty
assert torch.empty is original and "empty" in repr(torch.empty)
x = torch.ones(2, device="spyre")
assert torch.empty is not original
assert torch.empty(2, device="spyre", device_layout=x.device_tensor_layout()).shape == (2,)
layout = x.device_tensor_layout()
for _ in range(2):
    with torch.device("meta"):
        assert torch.nn.Linear(2, 2).weight.device.type == "meta"
        assert torch.empty(2).device.type == "meta" == original(2).device.type
    torch.set_default_device("meta")
    assert torch.empty(2).device.type == "meta"
    torch.set_default_device("spyre")
    assert torch.empty(2).device.type == "spyre" == torch.nn.Linear(2, 2).weight.device.type
    torch.set_default_device(None)
assert pickle.loads(pickle.dumps(torch.empty)) is torch.empty is copy.deepcopy(torch.empty)
assert b"torch_spyre" not in pickle.dumps([torch.empty, torch.Tensor.to])
assert pickle.loads(pickle.dumps(torch.Tensor.to)) is torch.Tensor.to
assert torch.empty(2, dtype=torch.half, device="spyre", device_layout=layout).shape == (2,)
assert torch.ones(2).to("spyre", device_layout=layout).device_tensor_layout() == layout
assert repr(torch.ones(2).to("meta")) == "tensor(..., device='meta', size=(2,))"

class Recorder(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        seen.append(function)
        return function(*args, **(kwargs or {}))

seen = []
with Recorder():
    torch.empty(2).to(torch.half)
assert seen[0] is original, seen
from guest_probe import make
import guest_probe
guest_probe.torch = torch
assert torch.jit.script(make)(2).tolist() == [[2.0, 2.0], [2.0, 2.0]]
assert "aten::empty" in str(torch.jit.script(make).graph)
assert torch.vmap(lambda row: torch.empty(2, device=row.device).fill_(3))(torch.ones(3, 2)).shape
"""


def test_the_argument_device_layout_comes_with_the_first_use(run_python):
    """Nothing else of the two functions that take it changes."""
    run_python(AFTER_USE, PYTHONPATH=str(PROBE.parent))


NO_ROOM = """
import resource
import torch
resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
assert torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(1)) == 2
assert torch.accelerator.current_device_index() == 0
torch.accelerator.current_stream()
assert not torch.spyre.is_initialized()
try:
    torch.ones(1, device="spyre")
except RuntimeError as error:
    assert "ulimit -v" in str(error), error
else:
    raise AssertionError("a card of 128 GiB in 16 GiB")
"""


def test_compiling_for_the_cpu_starts_no_card(run_python):
    """Dynamo asks for the current stream of the accelerator; a process may have no room for one."""
    run_python(NO_ROOM)
