# SPDX-License-Identifier: Apache-2.0
"""What torch.compile() takes as options and modes of Inductor."""

from __future__ import annotations

from typing import Any


def known_options() -> dict[str, Any]:
    """Inductor's options and their values."""
    from torch._inductor import config

    return config.get_config_copy()


def check_mode(mode: str) -> None:
    """Raises RuntimeError for a mode that PyTorch does not have."""
    from torch._inductor import list_mode_options

    list_mode_options(mode)
