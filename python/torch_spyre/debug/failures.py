# SPDX-License-Identifier: Apache-2.0
"""A report of a failure, written where it happens: torch-spyre's "first failure data capture"
(torch-spyre/torch-spyre, `docs/source/user_guide/profiling/ffdc.md`), its directory and fields.

    TORCH_SPYRE_FFDC=1 python model.py
    python -c "import torch; print(torch.spyre.get_diagnostic_report()['failure'])"
"""

from __future__ import annotations

import contextlib
import datetime
import getpass
import json
import os
import pathlib
import platform
import re
import socket
import stat
import tempfile
import traceback
from collections.abc import Iterator
from typing import Any

import torch

from .. import _C, environment

MOST_REPORTS = 50
_MOST_ARTEFACTS = 20
_NAME = re.compile(r"ffdc_.+_(\d{8}T\d{6})_(\d{6})_(\d+)\.json")
_VARIABLES = ("SPYRE", "TORCH", "SENCORES", "LX_", "DXP", "DUMP_SPYRE", "LOCAL_RANK")
_ARTEFACTS = ("*.py", "*.txt", "*.json", "*.mlir", "*.log")
_SEEN = "_spyre_reported"


def _cache_folder() -> pathlib.Path:
    named = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if named:
        return pathlib.Path(named)
    return pathlib.Path(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}")


def _folder() -> pathlib.Path:
    return _cache_folder() / "torch-spyre" / "ffdc_reports"


def _newest(folder: pathlib.Path) -> pathlib.Path | None:
    found = [path for path in folder.glob("*") if path.is_dir()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def _artefacts() -> list[str]:
    roots = pathlib.Path("torch_compile_debug"), _cache_folder() / "inductor-spyre"
    folders = [folder for folder in map(_newest, roots) if folder is not None]
    files = [path for f in folders for pattern in _ARTEFACTS for path in f.rglob(pattern)]
    return [str(path.resolve()) for path in files[:_MOST_ARTEFACTS]]


def _report(error: BaseException, category: str, kernel: str | None) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    started = _C.is_started()
    return {
        "metadata": {
            "timestamp": datetime.datetime.now(datetime.UTC).isoformat(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "python_version": platform.python_version(),
            "torch_version": torch.__version__,
            "torch_spyre_version": _C.__version__,
            "platform": platform.platform(),
        },
        "failure": {
            "category": category,
            "exception_type": type(error).__name__,
            "message": str(error),
            "file": last.filename if last else None,
            "lineno": last.lineno if last else None,
            "traceback": "".join(traceback.format_exception(error)),
        },
        "artifacts": {"paths": _artefacts()},
        "environment": {k: v for k, v in os.environ.items() if k.startswith(_VARIABLES)},
        "runtime": {"kernel_name": kernel, "code_dir": None},
        "hardware_state": {
            "spyre_available": _C.device_count() > 0,
            "note": "emulated" if started else "emulated; the runtime has not started",
        },
        "collector": {"completeness_pct": 100.0, "missing_fields": [], "collector_errors": []},
    }


def _write(report: dict[str, Any]) -> None:
    folder = _folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S_%f")
    path = folder / f"ffdc_{report['failure']['category']}_{now}_{os.getpid()}.json"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    by_age = sorted(folder.glob("ffdc_*.json"), key=lambda each: each.stat().st_mtime)
    for old in by_age[:-MOST_REPORTS]:
        old.unlink(missing_ok=True)


def _is_known(error: BaseException | None) -> bool:
    """Whether there is a report of the error, or of one that it was raised from."""
    while error is not None and not hasattr(error, _SEEN):
        error = error.__cause__ or error.__context__
    return error is not None


@contextlib.contextmanager
def reported(category: str, kernel: str | None = None) -> Iterator[None]:
    """With TORCH_SPYRE_FFDC=1, an exception that leaves the block is reported, once. A report that
    cannot be written changes nothing."""
    try:
        yield
    except Exception as error:
        if environment.flag("TORCH_SPYRE_FFDC") and not _is_known(error):
            with contextlib.suppress(Exception):
                setattr(error, _SEEN, True)
                _write(_report(error, category, kernel))
        raise


def _read(path: pathlib.Path) -> dict[str, Any] | None:
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        report = json.loads(path.read_text(encoding="utf-8"))
        known = isinstance(report["failure"]["category"], str)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {**report, "_report_path": str(path.resolve())} if known else None


def get_diagnostic_report(output_dir: str | None = None) -> dict[str, Any] | None:
    """The newest report of a directory, by default the one where reports are written, with its path
    as `_report_path`. None where no file is one."""
    folder = pathlib.Path(output_dir) if output_dir else _folder()
    matches = [match for path in folder.glob("*.json") if (match := _NAME.fullmatch(path.name))]
    matches.sort(key=lambda match: match.groups(), reverse=True)
    return next((report for m in matches if (report := _read(folder / m[0]))), None)
