# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import shutil

import pytest
from command import BUNDLES, ROOT, Spyre


@pytest.fixture(scope="session")
def spyre():
    path = os.environ.get("SPYRE_CLI", ROOT / "build" / "release" / "spyre")
    if not pathlib.Path(path).exists():
        pytest.fail(f"{path} is missing: make build, or set SPYRE_CLI")
    return Spyre(path)


@pytest.fixture
def bundle(tmp_path):
    """A function: a copy of a golden bundle that the test may change."""

    def copy(name):
        target = tmp_path / name
        shutil.copytree(BUNDLES / name, target)
        return target

    return copy
