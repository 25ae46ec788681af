# SPDX-License-Identifier: Apache-2.0
"""`torch_spyre._C._logging`: levels of the loggers of torch-spyre's C++ code, which its Python
sets, and messages through them (torch-spyre/torch-spyre, `torch_spyre/csrc/logging_bindings.cpp`).
Nothing of this stack logs here by itself: its C code reports errors, never text."""

from __future__ import annotations

import enum
import sys
import threading
import time
import types
from collections.abc import Iterable


class LogLevel(enum.IntEnum):
    """Those of Python's logging."""

    NOTSET = 0
    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    CRITICAL = 50


def log_level_to_string(level: int) -> str:
    """Its name; NOTSET for a number that has none."""
    return LogLevel(level).name if level in list(LogLevel) else "NOTSET"


def string_to_log_level(level_str: str) -> LogLevel:
    """The level of a name; NOTSET for any other text."""
    return LogLevel.__members__.get(level_str, LogLevel.NOTSET)


class LoggingConfig:
    """The levels: there is one object, instance()."""

    _only: LoggingConfig | None = None

    def __init__(self) -> None:
        self._levels: dict[str, int] = {}
        self._file = ""
        self._lock = threading.Lock()

    @classmethod
    def instance(cls) -> LoggingConfig:
        """The object of the process."""
        cls._only = cls._only or cls()
        return cls._only

    def initialize_from_python(self, config: Iterable[tuple[str, int]]) -> None:
        """Replaces all levels."""
        self._levels = {component: int(level) for component, level in config}

    def set_log_level(self, component: str, level: int) -> None:
        """Sets one level."""
        self._levels[component] = level

    def get_log_level(self, component: str) -> int:
        """The level of a component, or of the nearest one above it that has one; WARNING."""
        while component and component not in self._levels:
            component = component.rpartition(".")[0]
        level = self._levels.get(component, LogLevel.WARNING)
        return LogLevel(level) if level in list(LogLevel) else level

    def is_enabled(self, component: str, level: int) -> bool:
        """Whether messages of this level are written."""
        return self.get_log_level(component) <= level

    def get_components(self) -> list[str]:
        """Those that have a level of their own."""
        return list(self._levels)

    def set_log_file(self, path: str) -> None:
        """Where messages go; "" is stderr. A file that cannot be opened changes nothing."""
        try:
            if path:
                open(path, "a").close()
        except OSError:
            return
        self._file = path

    def _write(self, line: str) -> None:
        with self._lock:
            if not self._file:
                sys.stderr.write(line)
                return
            with open(self._file, "a") as file:
                file.write(line)


def log_message(component: str, level: int, message: str) -> None:
    """One line in the file or on stderr, if the component's level lets it through."""
    config = LoggingConfig.instance()
    if message and level != LogLevel.NOTSET and config.is_enabled(component, level):
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        config._write(f"[{log_level_to_string(level)}] [{component}] {now} {message}\n")


def emit_test_log(component: str, level: int, message: str) -> None:
    """log_message(); a number that is no level counts as WARNING."""
    known = level if level in list(LogLevel) else LogLevel.WARNING
    log_message(component, known, message)


def make_module() -> types.ModuleType:
    """The module."""
    module = types.ModuleType("torch_spyre._C._logging", __doc__)
    for each in (
        LogLevel, LoggingConfig, log_level_to_string, string_to_log_level, log_message,
        emit_test_log,
    ):  # fmt: skip
        setattr(module, each.__name__, each)
    vars(module).update(LogLevel.__members__)
    return module
