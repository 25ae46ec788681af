# SPDX-License-Identifier: Apache-2.0
"""What a run leaves in the repository: configurations, rates.json, docs/pytorch-tests.md."""

from __future__ import annotations

import collections
import json
import os
import re
from pathlib import Path

import yaml

from .config import File

ROOT = Path(__file__).parents[2]
RATES = Path(__file__).with_name("rates.json")
PAGE = ROOT / "docs/pytorch-tests.md"
REASONS = 5  # of a file

HEAD = """# PyTorch's own tests on the device

Files of device-generic tests from a PyTorch checkout, made for the device by PyTorch
(`PYTORCH_TESTING_DEVICE_ONLY_FOR=privateuse1`) and run in the dtypes {dtypes}:

```
PYTORCH_ROOT=/path/to/pytorch make test-pytorch
```

`tests/upstream/configs` has a configuration per file, in the format of torch-spyre's RFC 1287
(`tests/upstream/config.py`): what it lists must pass, in every dtype; the rest may fail. `--bless`
writes configurations and this page. Tests of a checkout of another version than the installed
PyTorch may fail for that; the page names the version.

Pass rate: {passed} of {ran} tests that are not skipped, {rate:.0%}.

| file | PyTorch | passed | failed | crashed | skipped | rate |
| --- | --- | --- | --- | --- | --- | --- |
{lines}

## Why tests fail

Groups of reasons that are no fault of the device:

- another version: what PyTorch or NumPy has given up since (`numpy.msort`,
  `numpy.array(copy=False)`), errors of another class, names of kernels of the CPU
- [16-bit numbers](special-values.md): NaN is infinity, infinity the largest number where a minimum
  starts from it; sums round otherwise than a loop over elements
- as on other devices: an index out of range is an error where numbers are read, not where the
  operator is called; `map_`; quantized, nested and compressed sparse tensors; indices of the host
  in `index_fill`
- DLPack: PyTorch's `__dlpack_device__` knows no renamed device

The most frequent reasons, numbers left out.

| file | tests | reason |
| --- | --- | --- |
{reasons}
"""


def bless(path: Path, file: File, found: dict, names: list[str], root: Path) -> None:
    """Writes a configuration whose mandatory tests are `names`, and the counts of the file."""
    name = Path(os.path.relpath(file.path, root / "test")).as_posix()
    body = {
        "files": [{
            "path": f"${{PYTORCH_ROOT}}/test/{name}",
            "unlisted_test_mode": "xfail",
            "tests": [{"names": names, "mode": "mandatory_success"}] if names else [],
        }],
        "global": {"supported_dtypes": [{"name": name} for name in file.dtypes]},
    }  # fmt: skip
    text = yaml.safe_dump({"test_suite_config": body}, sort_keys=False, width=100)
    path.write_text(f"# SPDX-License-Identifier: Apache-2.0\n{text}")
    counts = collections.Counter(outcome for outcome, _why in found.values())
    reasons = collections.Counter(
        _plain(why) for outcome, why in found.values() if outcome in ("failed", "crashed")
    )
    version = root / "version.txt"
    rates = json.loads(RATES.read_text()) if RATES.exists() else {}
    rates[name] = {
        "version": version.read_text().strip() if version.exists() else "unknown",
        "dtypes": list(file.dtypes),
        "counts": dict(sorted(counts.items())),
        "reasons": sorted(reasons.most_common(REASONS), key=lambda pair: (-pair[1], pair[0])),
    }
    RATES.write_text(json.dumps(rates, indent=1, sort_keys=True) + "\n")


def _plain(why: str) -> str:
    text = re.sub(r"\d+", "N", why or "no reason given").replace("|", "/")
    return re.sub(r"\s+", " ", text)[:110]


def text() -> str:
    """The page for rates.json."""
    rates = json.loads(RATES.read_text())
    passed = sum(rate["counts"].get("passed", 0) for rate in rates.values())
    ran = sum(_ran(rate["counts"]) for rate in rates.values())
    lines, reasons = [], []
    for name, rate in rates.items():
        counts = rate["counts"]
        cells = [str(counts.get(k, 0)) for k in ("passed", "failed", "crashed", "skipped")]
        share = counts.get("passed", 0) / max(1, _ran(counts))
        lines.append(f"| {name} | {rate['version']} | {' | '.join(cells)} | {share:.0%} |")
        reasons += [f"| {name} | {count} | {why} |" for why, count in rate["reasons"]]
    dtypes = list(dict.fromkeys(d for rate in rates.values() for d in rate["dtypes"]))
    return HEAD.format(
        dtypes=", ".join(dtypes), passed=passed, ran=ran, rate=passed / max(1, ran),
        lines="\n".join(lines), reasons="\n".join(reasons),
    )  # fmt: skip


def _ran(counts: dict) -> int:
    return sum(counts.get(outcome, 0) for outcome in ("passed", "failed", "crashed"))


def write() -> None:
    PAGE.write_text(text())
