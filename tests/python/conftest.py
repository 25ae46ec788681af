# SPDX-License-Identifier: Apache-2.0
import gc
import logging
import os
import subprocess
import sys
import tempfile

import pytest
import torch
import torch._dynamo.guards
import torch._functorch.config
import torch_spyre
from torch_forks import COMPILING, TorchForks
from torch_spyre import registration, registry
from torch_spyre.compile import call_compiler
from torch_spyre.report import reports

# Outside of CI, PyTorch only warns of an operator whose results alias its inputs unsaid.
torch._functorch.config.error_on_custom_op_aliasing = True

# What only costs time here, a tenth of each compilation and more: Dynamo empties the host's caches
# to log how long the guards take; pytest listens to all loggers that do not propagate, for which
# PyTorch then writes its structured trace.
torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0
logging.root.manager.loggerDict.pop("torch.__trace", None)

_cache = tempfile.TemporaryDirectory(prefix="spyre-cache-")
os.environ.setdefault("SPYRE_CACHE_DIR", _cache.name)  # never the user's

QUICK = {"test_device.py", "test_help.py", "test_layout.py"}

REGISTERED = ("fallback_ops", "spyre_decompositions", "spyre_lowerings")

# Half a minute and more each: no other process is left to wait for one of them at the end.
FIRST = {
    "test_guest.py", "test_examples.py", "test_distributed.py", "test_sharded_programs.py",
    "test_distributed_failures.py", "test_operator_net.py", "test_net.py",
}  # fmt: skip


def pytest_collection_modifyitems(items):
    """Every test is quick (by its file), long (by its mark) or full."""
    items.sort(key=lambda item: item.path.name not in FIRST)
    for item in items:
        if item.path.name in QUICK:
            item.add_marker("quick")
        elif item.get_closest_marker("long") is None:
            item.add_marker("full")


@pytest.fixture(autouse=True, scope="module")
def old_objects_are_settled():
    """A file's collections do not search what the files before it left (Dynamo collects whenever it
    is reset), nor does it meet their reports."""
    gc.collect()
    gc.freeze()
    reports.clear()  # they are bounded, and tests count them


@pytest.fixture(autouse=True, scope="module")
def registrations_are_undone():
    """What a file leaves registered would change the programs of the files after it."""
    registration.complete()  # which registers the device's own
    tables = {name: getattr(registry, name) for name in REGISTERED}
    before = {name: dict(table) for name, table in tables.items()}
    yield
    for name, table in tables.items():
        assert table == before[name], f"{name} is not as it was before the file"


@pytest.fixture
def counted(monkeypatch):
    """The operators that a program was tried to be made for, in order; none is known before."""
    from torch_spyre.eager import operator_program

    operator_program.programs.clear()
    made = []
    compile_call = operator_program.Operator._compile

    def count(self, *how):
        made.append(self.op)
        return compile_call(self, *how)

    monkeypatch.setattr(operator_program.Operator, "_compile", count)
    return made


@pytest.fixture
def compile_observed():
    """compile_observed(function, *tensors) -> its result on the card, the executables made."""
    seen = []
    call_compiler.observers.append(seen.append)

    def run(function, *tensors):
        torch._dynamo.reset()
        seen.clear()
        result = torch.compile(function, dynamic=False)(*(t.to("spyre") for t in tensors))
        return result, list(seen)

    yield run
    call_compiler.observers.pop()


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def fallbacks(request):
    """A fallback fails the test, except of the operators that its marks `host` name."""
    torch_spyre.reset_fallback_report()
    allowed = [name for mark in request.node.iter_markers("host") for name in mark.args]
    with torch_spyre.fallback("error", allow=allowed):
        yield


@pytest.fixture(scope="session")
def torch_forks():
    forks = TorchForks()
    yield forks
    forks.close()


@pytest.fixture(scope="session")
def compiling_forks():
    forks = TorchForks(COMPILING)
    yield forks
    forks.close()


@pytest.fixture
def run_compiling(compiling_forks):
    """As run_python, for programs that compile and whose environment is only for others to read:
    what a compilation imports is there already, the package, too."""

    def run(source, **environment):
        done = compiling_forks.run(source, {**os.environ, **environment})
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture
def run_python(request):
    """Runs a program as if in a fresh interpreter; returns its output, asserts that it succeeds."""

    def run(source, **environment):
        environment = {**os.environ, **environment}
        if "TORCH_LOGS" in environment:  # `import torch` reads it
            return request.getfixturevalue("run_fresh_python")(source, **environment)
        done = request.getfixturevalue("torch_forks").run(source, environment)
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture
def run_fresh_python():
    """The same in a fresh interpreter, for what `import torch` itself does."""

    def run(source, **environment):
        done = subprocess.run(
            [sys.executable, "-c", source],
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture
def refused_rows(monkeypatch):
    """Sizes of the rows that a store could not copy into a cache as they lay."""
    import torch_spyre

    found = []
    original = torch_spyre._C.copy_rows

    def copy_rows(target, source, runs):
        copied = original(target, source, runs)
        if not copied:
            found.append(tuple(source.shape))
        return copied

    monkeypatch.setattr(torch_spyre._C, "copy_rows", copy_rows)
    return found
