# SPDX-License-Identifier: Apache-2.0
"""Programs in processes that begin where `import torch`, two seconds of processor time, has ended:
forks of one that did only that, without this package. They read their environment and load the
package as after an import of their own, and end as an interpreter does."""

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
from multiprocessing import forkserver

WITHOUT_PACKAGE = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
SECONDS = 600


class TorchForks:
    """Runs programs one after the other."""

    def __init__(self) -> None:
        self.server = subprocess.Popen(
            [sys.executable, __file__], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **WITHOUT_PACKAGE},
        )  # fmt: skip

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
    import torch  # noqa: F401

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
