# SPDX-License-Identifier: Apache-2.0
"""What a program that never touches the device sees of PyTorch, as JSON: test_guest.py runs this
with the package loaded by `import torch` and without, and compares."""

import hashlib
import json
import logging
import os
import pickle
import pickletools
import sys
import types
import warnings


def state() -> dict:
    """What a library may leave behind in a process when it is imported."""
    loggers = logging.root.manager.loggerDict
    return {
        "environ": dict(os.environ),
        # Without the one that waits for Inductor (inductor_modules.py).
        "meta_path": [
            str(getattr(finder, "__name__", type(finder)))
            for finder in sys.meta_path
            if type(finder).__module__ != "torch_spyre._pytorch.inductor.inductor_modules"
        ],
        "path_hooks": len(sys.path_hooks),
        "excepthook": str(sys.excepthook),
        "filters": [str(entry) for entry in warnings.filters],
        "loggers": {
            name: [log.level, [str(type(h)) for h in log.handlers], log.propagate, log.disabled]
            for name, log in sorted(loggers.items())
            if isinstance(log, logging.Logger)
        },
        "root": [logging.root.level, len(logging.root.handlers)],
    }


def described(value) -> str:
    """Identity of a function as far as two processes can compare it."""
    where = f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', None)}"
    code = getattr(value, "__code__", None)
    place = f" {code.co_filename}:{code.co_firstlineno}" if code else ""
    return f"{type(value).__name__} {where}{place}"


def functions(torch) -> dict:
    owners = {
        "torch": torch,
        "torch.Tensor": torch.Tensor,
        "torch.nn.Module": torch.nn.Module,
        "torch.nn.Parameter": torch.nn.Parameter,
        "torch.nn.functional": torch.nn.functional,
        "torch.UntypedStorage": torch.UntypedStorage,
        "torch.TypedStorage": torch.TypedStorage,
        "torch.compiler": torch.compiler,
        "torch.random": torch.random,
        "torch.serialization": torch.serialization,
        "torch.jit": torch.jit,
        "torch.utils.data": torch.utils.data,
        "torch._tensor_str": torch._tensor_str,
        "torch.overrides": torch.overrides,
        "torch.autograd": torch.autograd,
        "torch.library": torch.library,
    }
    found = {}
    for name, owner in owners.items():
        for attribute in dir(owner):
            value = getattr(owner, attribute, None)
            if callable(value) and not isinstance(value, types.ModuleType):
                found[f"{name}.{attribute}"] = described(value)
    return found


def factories(torch) -> dict:
    """Each function that makes tensors, and arguments that suffice."""
    fft = torch.fft
    calls = {
        torch.empty: ((2,), {}), torch.zeros: ((2,), {}), torch.ones: ((2,), {}),
        torch.full: (((2,), 3.0), {}), torch.rand: ((2,), {}), torch.randn: ((2,), {}),
        torch.randint: ((4, (2,)), {}), torch.randperm: ((4,), {}), torch.arange: ((4,), {}),
        torch.linspace: ((0, 1, 3), {}), torch.logspace: ((0, 1, 3), {}), torch.eye: ((2,), {}),
        torch.empty_strided: (((2,), (1,)), {}), torch.empty_permuted: (((2, 3), (0, 1)), {}),
        torch.tensor: (([1.0],), {}), torch.as_tensor: (([1.0],), {}),
        torch.asarray: (([1.0],), {}), torch.scalar_tensor: ((1.0,), {}),
        torch.tril_indices: ((2, 2), {}), torch.triu_indices: ((2, 2), {}),
        torch.hann_window: ((4,), {}), torch.hamming_window: ((4,), {}),
        torch.blackman_window: ((4,), {}), torch.bartlett_window: ((4,), {}),
        torch.kaiser_window: ((4,), {}), fft.fftfreq: ((4,), {}), fft.rfftfreq: ((4,), {}),
    }  # fmt: skip
    return {function.__name__: (function, *given) for function, given in calls.items()}


def devices(torch) -> dict:
    """The devices of what is made under each way to choose one."""
    found = {}
    for name, (function, args, options) in factories(torch).items():
        for device in ("cpu", "meta"):
            with torch.device(device):
                found[f"with {device}: {name}"] = str(function(*args, **options).device)
            torch.set_default_device(device)
            found[f"default {device}: {name}"] = str(function(*args, **options).device)
            torch.set_default_device(None)
            found[f"{device}: {name}"] = str(function(*args, device=device, **options).device)
    with torch.device("meta"):
        linear = torch.nn.Linear(2, 2)
    found["module"] = str(linear.weight.device)
    found["to_empty"] = str(linear.to_empty(device="cpu").weight.device)
    found["module.to"] = str(torch.nn.Linear(2, 2).to("meta").weight.device)
    return found


def printed(torch) -> list:
    base = torch.arange(12.0).view(3, 4)
    return [
        *(repr(base.to(d)) for d in (torch.half, torch.bfloat16, torch.double, torch.int8)),
        *(repr(base.to(d)) for d in (torch.bool, torch.complex64, torch.uint16)),
        repr(base), repr(base.to_sparse()), repr(base.to("meta")), repr(base.requires_grad_()),
        repr(torch.zeros(2, 0)), repr(torch.tensor(1e-20)), f"{torch.tensor(2.5):.1f}",
        repr(torch.rand(3000, generator=torch.Generator().manual_seed(0))),
        repr(torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)),
        repr(torch.nn.Linear(2, 2)), repr(torch.ones(2).storage()),
    ]  # fmt: skip


def pickles(torch) -> dict:
    values = {
        "empty": torch.empty, "to": torch.Tensor.to, "tensor": torch.ones(3), "add": torch.add,
        "device": torch.device("cpu"), "module": torch.nn.ReLU(), "parameter":
        torch.nn.Parameter(torch.ones(2)), "Module.to": torch.nn.Module.to,
    }  # fmt: skip
    texts = {name: pickle.dumps(value) for name, value in values.items()}
    for name in ("empty", "to", "add", "Module.to"):
        assert pickle.loads(texts[name]) is values[name] or name == "to", name
    return {name: _globals(text) for name, text in texts.items()}


def _globals(text: bytes) -> list[str]:
    """What a pickle names; addresses, which it holds too, differ from process to process."""
    operations = pickletools.genops(text)
    return [str(argument) for _op, argument, _at in operations if isinstance(argument, str)
            and not argument.isdecimal()]  # fmt: skip


def make(n: int):
    x = torch.empty(n, n).to(torch.float64)
    return x.fill_(2.0) + torch.zeros([n, n], dtype=torch.float64)


def scripted(torch) -> str:
    script = torch.jit.script(make)
    traced = torch.jit.trace(lambda x: x.to(torch.half) + 1, torch.ones(2))
    return f"{script.graph}{script(2).tolist()}{traced.graph}{traced(torch.ones(2)).tolist()}"


def compiled(torch) -> dict:
    def step(x, y):
        return torch.relu(x @ y).sum(-1) + torch.empty(3, device="cpu").fill_(1.0).to(x.dtype)

    x, y = torch.ones(3, 4), torch.ones(4, 5)
    found = {}
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        found[backend] = torch.compile(step, backend=backend)(x, y).tolist()
    torch._dynamo.reset()
    graphs = []
    torch.compile(step, backend=lambda gm, _inputs: graphs.append(gm.code) or gm)(x, y)
    found["default"] = torch.compile(step)(x, y).tolist()
    found["graph"] = graphs
    found["wrapper"] = str(torch._TorchCompileInductorWrapper("default", None, None).config)
    return found


def numbers(torch) -> dict:
    torch.manual_seed(3)
    drawn = torch.rand(4).tolist()
    with torch.random.fork_rng(enabled=True, devices=[]):
        forked = torch.rand(2).tolist()
    text = torch.get_rng_state().numpy().tobytes()
    return {"drawn": drawn, "forked": forked, "state": hashlib.sha256(text).hexdigest()}


def main() -> None:
    global torch  # functions that are scripted name it
    before = state()
    import torch

    after = state()
    imported = sorted(name for name in sys.modules if name.split(".")[0] == "torch_spyre")
    found = {
        "left behind": {key: after[key] for key in after},
        "unchanged": {key: before[key] == after[key] for key in ("environ", "meta_path")},
        "functions": functions(torch),
        "devices": devices(torch),
        "printed": printed(torch),
        "pickles": pickles(torch),
        "numbers": numbers(torch),
    }
    if "jit" in sys.argv:
        found["scripted"] = scripted(torch)
    if "compile" in sys.argv:
        found["compiled"] = compiled(torch)
    found["still left behind"] = state()
    found["modules"] = imported
    print(json.dumps(found))


if __name__ == "__main__":
    main()
