# SPDX-License-Identifier: Apache-2.0
"""Variables of the environment that Python alone reads."""

from __future__ import annotations

import os
import warnings

_WORDS = {"": False, "0": False, "false": False, "no": False, "off": False,
          "1": True, "true": True, "yes": True, "on": True}  # fmt: skip


def flag(variable: str) -> bool:
    return is_on(variable, os.environ.get(variable, ""))


def is_on(variable: str, text: str | bool) -> bool:
    """What the text of a variable says."""
    word = str(text).lower()
    if word not in _WORDS:
        warnings.warn(f"{variable}={text}: expected 0 or 1; taken as 0", stacklevel=3)
    return _WORDS.get(word, False)


def directory(variable: str) -> str | None:
    """A directory to write to, which is made when it is missing."""
    path = os.environ.get(variable)
    if not path:
        return None
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise OSError(f"{variable}={path}: cannot make directory: {error.strerror}") from None
    return path
