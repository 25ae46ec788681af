# SPDX-License-Identifier: Apache-2.0
"""TORCH_SPYRE_DEBUG=1: what crosses between host and card."""

import json
import re

import torch

LINE = re.compile(
    r"spyre copy (to card|to host): shape (\[.*?\]), (\w+), "
    r"SpyreTensorLayout\(device_size=(\[.*?\]), .*?\), DCI (\{.*\}), (.*)"
)


def test_every_copy_is_a_line(run_python):
    source = (
        "import torch\n"
        "x = torch.arange(65.).half().to('spyre')\n"
        "y = x.clone().cpu()\n"
        "assert torch.equal(y, torch.arange(65.).half())\n"
    )
    lines = run_python(source, TORCH_SPYRE_DEBUG="1").stderr.splitlines()
    copies = [LINE.fullmatch(line).groups() for line in lines if line.startswith("spyre copy")]
    assert [c[0] for c in copies] == ["to card", "to host"]
    for _direction, shape, dtype, device_size, dci, result in copies:
        assert (shape, dtype, device_size, result) == ("[65]", "float16", "[2, 64]", "ok")
        described = json.loads(dci)
        assert described["card_format"] == "SEN169_FP16"
        assert sum(torch.Size(c["size"]).numel() for c in described["copies"]) == 65


def test_nothing_is_logged_unasked(run_python):
    assert run_python("import torch; torch.ones(3).half().to('spyre').cpu()").stderr == ""


def test_modules_that_were_compiled_by_themselves_are_the_place_of_their_kernels():
    from torch_spyre.compile import graph_builder

    places = []

    def backend(graph, _inputs):
        nodes = [node for node in graph.graph.nodes if node.op == "call_function"]
        places.extend(graph_builder.location(node) for node in nodes)
        return graph.forward

    inner = torch.nn.Sequential(torch.nn.GELU(), torch.nn.Linear(4, 2))
    torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4), inner), backend=backend)(
        torch.ones(2, 4)
    )
    assert places == ["model.0: Linear", "model.1.0: GELU", "model.1.1: Linear"]
