# SPDX-License-Identifier: Apache-2.0
"""Loggers of the package, under torch-spyre's names, and how the environment sets their levels.

    TORCH_LOGS="+torch_spyre.inductor.passes" python model.py

"x" is INFO, "+x" DEBUG, "-x" ERROR, "x:LEVEL" that level; torch_spyre.x is the logger spyre.x. A
logger without a level has that of the one above. Messages go to stderr when anything is asked for;
else this package adds no handler to any logger.
"""

from __future__ import annotations

import logging
import os
import warnings
from enum import IntEnum


class LogLevel(IntEnum):
    """Levels of logging, with one above all for a logger that is off."""

    NOTSET = 0
    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    CRITICAL = 50
    DISABLED = 60


DEFAULT_LOG_LEVELS = {
    "spyre": LogLevel.WARNING,
    **{
        f"spyre.{name}": LogLevel.WARNING
        for name in (
            "inductor",
            "inductor.lowering",
            "inductor.stickify",
            "inductor.codegen",
            "inductor.passes",
            "inductor.wsr",
            "inductor.sdsc",
            "inductor.work_division",
            "runtime",
            "execution",
            "device",
        )
    },
}
_SIGNS = {"+": LogLevel.DEBUG, "-": LogLevel.ERROR}
_FORMAT = logging.Formatter("[%(levelname)s] [%(name)s] %(message)s")
_DEFAULT = "default"

_levels: dict[str, LogLevel] = {}  # what was asked for, by logger
_sources: dict[str, str] = {}
_file: str | None = None
_file_source = _DEFAULT
_handlers: list[logging.Handler] = []
_asked_for: set[str] = set()  # loggers that get_logger() gave


def _level(name: str) -> LogLevel:
    try:
        return LogLevel[name.upper()]
    except KeyError:
        levels = ", ".join(level.name for level in LogLevel)
        raise ValueError(f"log level {name}: expected one of {levels}") from None


def _component(name: str) -> str | None:
    """ "spyre.x" of "spyre.x" and "torch_spyre.x"; None for other loggers."""
    name = name.removeprefix("torch_")
    return name if name == "spyre" or name.startswith("spyre.") else None


def is_own_entry(entry: str) -> bool:
    """Whether an entry of TORCH_LOGS names a logger of this package, or of a pass of a user."""
    name = _component(entry.lstrip("+-").partition(":")[0])
    return name in DEFAULT_LOG_LEVELS or (name or "").startswith("spyre.inductor.")


def _unknown(name: str) -> str:
    known = ", ".join(DEFAULT_LOG_LEVELS)
    return f"no logger {name}: expected one of {known} or spyre.inductor.<name>"


def _ask(component: str, level: LogLevel, source: str) -> None:
    _levels[component] = level
    _sources[component] = source


def _read_old_variables() -> None:
    def old(variable: str, instead: str) -> str | None:
        value = os.environ.get(variable)
        if value:
            text = f"{variable} is deprecated: {instead}"
            warnings.warn(text, DeprecationWarning, stacklevel=5)
        return value

    if (old("TORCH_SPYRE_DEBUG", "TORCH_LOGS=+torch_spyre") or "0") != "0":
        _ask("spyre", LogLevel.DEBUG, "env:TORCH_SPYRE_DEBUG")
    wanted = old("SPYRE_INDUCTOR_LOG", "TORCH_LOGS=torch_spyre.inductor") or "0"
    level = _level(old("SPYRE_INDUCTOR_LOG_LEVEL", "TORCH_LOGS=+torch_spyre.inductor") or "INFO")
    if wanted.lower() in ("1", "true", "yes"):
        _ask("spyre.inductor", level, "env:SPYRE_INDUCTOR_LOG")
    path = old("SPYRE_LOG_FILE", "set_log_file() of torch_spyre.logging_config")
    _write_to(path, "env:SPYRE_LOG_FILE" if path else _DEFAULT)


def _read_torch_logs() -> None:
    for entry in os.environ.get("TORCH_LOGS", "").replace(" ", "").split(","):
        name, _, level = entry.lstrip("+-").partition(":")
        component = _component(name)
        if name.startswith("spyre.") and not is_own_entry(entry):
            raise ValueError(f"TORCH_LOGS: {_unknown(name)}")
        if component:
            sign = _SIGNS.get(entry[0], LogLevel.INFO)
            _ask(component, _level(level) if level else sign, "TORCH_LOGS")


def _apply() -> None:
    if _levels and not any(type(handler) is logging.StreamHandler for handler in _handlers):
        _add_handler(logging.StreamHandler())
    for component in {*DEFAULT_LOG_LEVELS, *_levels}:
        asked = _levels.get(component, LogLevel.NOTSET)
        if component == "spyre" and component not in _levels:
            asked = DEFAULT_LOG_LEVELS[component]
        logging.getLogger(component).setLevel(int(asked))
    for component in _asked_for:
        logging.getLogger(component).setLevel(int(get_log_level(component)))


def _add_handler(handler: logging.Handler) -> None:
    handler.setFormatter(_FORMAT)
    logging.getLogger("spyre").addHandler(handler)
    _handlers.append(handler)


def reset() -> None:
    """Reads the environment anew."""
    _levels.clear()
    _sources.clear()
    while _handlers:
        handler = _handlers.pop()
        logging.getLogger("spyre").removeHandler(handler)
        handler.close()
    _read_old_variables()
    _read_torch_logs()
    _apply()
    # Messages of the library itself; it reads the variable at its first message.
    if "SPYRE_LOG" not in os.environ and get_log_level("spyre.runtime") < LogLevel.WARNING:
        os.environ["SPYRE_LOG"] = get_log_level("spyre.runtime").name.lower()


def get_log_level(component: str) -> LogLevel:
    """The level in force, its own or that of the nearest logger above it."""
    name = _component(component) or component
    while name not in _levels and "." in name:
        name = name.rpartition(".")[0]
    return _levels.get(name, LogLevel.WARNING)


def get_logger(component: str) -> logging.Logger:
    """A logger with a level of its own, which follows what is asked of those above it."""
    _asked_for.add(component)
    logger = logging.getLogger(component)
    logger.setLevel(int(get_log_level(component)))
    return logger


def list_components() -> list[str]:
    """The loggers of the package, and others that were given a level."""
    return sorted({*DEFAULT_LOG_LEVELS, *_levels})


def set_log_level(component: str, level: str) -> None:
    """Gives a logger ("spyre.x" or "torch_spyre.x") a level by its name.

    Raises: ValueError for an unknown level, and for a logger that the package has not; those of
    passes of a program are "spyre.inductor.<name>".
    """
    if not is_own_entry(component):
        raise ValueError(_unknown(component))
    _ask(_component(component) or component, _level(level), "programmatic")
    _apply()


def enable(component: str) -> None:
    """Sets a logger's level to INFO."""
    set_log_level(component, "INFO")


def disable(component: str) -> None:
    """Turns a logger off."""
    set_log_level(component, "DISABLED")


def get_log_file() -> str | None:
    """The file that messages go to beside stderr, or None."""
    return _file


def get_output_config() -> dict[str, str | None]:
    """The log file and what set it: `log_file`, `log_file_source`."""
    return {"log_file": _file, "log_file_source": _file_source}


def set_log_file(path: str | None) -> None:
    """Messages go there as well; None ends that."""
    _write_to(path, "programmatic" if path else _DEFAULT)


def _write_to(path: str | None, source: str) -> None:
    global _file, _file_source
    for handler in [h for h in _handlers if isinstance(h, logging.FileHandler)]:
        _handlers.remove(handler)
        logging.getLogger("spyre").removeHandler(handler)
        handler.close()
    _file, _file_source = path, source
    if path:
        _add_handler(logging.FileHandler(path))


def get_effective_config() -> dict[str, str]:
    """The name of the level in force, by logger."""
    return {name: get_log_level(name).name for name in {**DEFAULT_LOG_LEVELS, **_levels}}


def get_config_source(component: str) -> str:
    """What set a logger's level: TORCH_LOGS, env:<variable>, programmatic or default."""
    name = _component(component) or component
    while name not in _sources and "." in name:
        name = name.rpartition(".")[0]
    return _sources.get(name, _DEFAULT)


def set_log_passes(names: str) -> None:
    """Passes after which spyre.inductor.passes shows the loop IR at DEBUG: "all" or names between
    commas; "" for none."""
    from . import config

    config.log_passes = names


def get_log_passes() -> str:
    """What set_log_passes() was given last."""
    from . import config

    return config.log_passes


reset()
