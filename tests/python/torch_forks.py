# SPDX-License-Identifier: Apache-2.0
"""Programs in processes that begin where imports have ended: forks of one that did only these.
Behind `import torch`, two seconds of processor time, they read their environment and load the
package as after an import of their own. Behind what a compilation imports, three seconds more, the
package is there, but has not been used. They end as an interpreter does."""

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
from collections.abc import Sequence
from multiprocessing import forkserver

WITHOUT_PACKAGE = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
SECONDS = 600
COMPILING = (
    "torch._dynamo", "torch._inductor.compile_fx", "torch_spyre", "torch_spyre.compile.backend",
    "torch_spyre.eager.kernel_registration", "torch_spyre.eager.decomposed",
)  # fmt: skip


class TorchForks:
    """Runs programs one after the other, behind `imports`."""

    def __init__(self, imports: Sequence[str] = ("torch",)) -> None:
        self.server = subprocess.Popen(
            [sys.executable, __file__, *imports],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **WITHOUT_PACKAGE},
        )

    def run(self, source: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("stdout", "stderr")]
            request = {"source": source, "environment": environment, "paths": paths}
            print(json.dumps(request), file=self.server.stdin, flush=True)
            code = int(self.server.stdout.readline())
            texts = []
            for path in paths:
                with open(path) as file:
                    texts.append(file.read())
        return subprocess.CompletedProcess(["python", "-c", source], code, *texts)

    def close(self) -> None:
        self.server.communicate()


def start_forkserver() -> None:
    """The server of multiprocessing's forks, unless there is one: it has imported torch alone."""
    before = dict(os.environ)
    os.environ.update(WITHOUT_PACKAGE)
    forkserver.set_forkserver_preload(["torch", "torch.distributed"])
    forkserver.ensure_running()
    os.environ.clear()
    os.environ.update(before)


def _begin(environment: dict[str, str], paths: list[str]) -> None:
    for number, path in zip((1, 2), paths, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c"]
    sys.path[:1] = ["", *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    signal.alarm(SECONDS)
    if environment.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
        import torch

        torch._import_device_backends()


def _serve() -> str:
    """The program that this process, a fork, is to run; the server itself ends here."""
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        fork = os.fork()
        if fork == 0:
            _begin(request["environment"], request["paths"])
            return request["source"]
        print(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]), flush=True)
    sys.exit()


if __name__ == "__main__":
    program = _serve()
    sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(program, "<string>", "exec"), vars(sys.modules["__main__"]))
