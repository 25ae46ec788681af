# SPDX-License-Identifier: Apache-2.0
"""Prints what the installed distributions named on the command line require, for pip.

PyTorch is left out, which is installed already, and the packages of PyPI that are built for CUDA:
they load libraries that are not there, and `import transformers` fails on them.
"""

from __future__ import annotations

import sys
from importlib.metadata import requires

from packaging.requirements import Requirement

CUDA_BUILDS = {"torch", "torchvision", "torchaudio", "torchcodec", "torchao"}
INSTALLED_WITHOUT_DEPENDENCIES = {"vllm", "ibm-fms", "fms-model-optimizer"}


def wanted(distribution: str) -> list[str]:
    found = []
    for text in requires(distribution) or []:
        requirement = Requirement(text)
        if requirement.name in CUDA_BUILDS | INSTALLED_WITHOUT_DEPENDENCIES:
            continue
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        requirement.marker = None
        found.append(str(requirement))
    return found


if __name__ == "__main__":
    print("\n".join(sorted({line for name in sys.argv[1:] for line in wanted(name)})))
