# SPDX-License-Identifier: Apache-2.0
"""What tools/test_wheel runs beside an installed wheel: `wheel_program.py ENVIRONMENT`."""

import importlib.metadata
import pathlib
import sys

import torch
import torch_spyre


def of_environment(environment: pathlib.Path) -> None:
    """The package, its extension and its library are those of the environment."""
    for module in (torch_spyre, torch_spyre._C):
        assert pathlib.Path(module.__file__).is_relative_to(environment), module.__file__
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    mapped = {line.split()[-1] for line in lines if "libspyre" in line}
    assert mapped and all(pathlib.Path(path).is_relative_to(environment) for path in mapped), mapped
    assert torch_spyre.__version__ == importlib.metadata.version("torch-spyre")


def computes() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(67, 256).half(), torch.randn(256, 128).half()
    expected = torch.softmax(x.float() @ y.float(), dim=-1)
    eager = torch.softmax(x.to("spyre") @ y.to("spyre"), dim=-1)

    def product(a, b):
        return torch.softmax(a @ b, dim=-1)

    compiled = torch.compile(product)(x.to("spyre"), y.to("spyre"))
    for result in (eager, compiled):
        assert result.device.type == "spyre"
        torch.testing.assert_close(result.cpu().float(), expected, atol=0.02, rtol=0.02)
    assert "aten.mm" in torch_spyre.last_report().text


def autograd() -> None:
    model = torch.nn.Linear(64, 32).half().to("spyre")
    model(torch.ones(4, 64).half().to("spyre")).sum().backward()
    assert torch.equal(model.bias.grad.cpu(), torch.full((32,), 4.0).half())


of_environment(pathlib.Path(sys.argv[1]).resolve())
computes()
autograd()
print("wheel_program: ok", torch_spyre.__version__, torch.__version__, sys.version.split()[0])
