# SPDX-License-Identifier: Apache-2.0
"""One process of a run: reads names of operators from stdin, writes rows, answers "done NAME".

Before each case its dtype and form go to stdout, so that the process above knows what ended a
worker. A case that takes more than LIMIT_S seconds of processor time is "slow"; what hangs inside
of C the process above ends.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch_spyre

from . import forms, judge, rows

# jiterator is for CUDA only; the CPU's own kernel of _segment_reduce ends the process on samples.
EXCLUDED = ("jiterator", "_segment_reduce")
LIMIT_S = int(os.environ.get("CASE_LIMIT_S", "40"))


class Slow(BaseException):
    """The alarm of a case; no `except Exception` may swallow it."""


def _alarm(_signal, _frame):
    raise Slow


def load() -> dict:
    """The database by names."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.formatted_name: op for op in op_db if not op.name.startswith(EXCLUDED)}


def planned(op, dtypes, wanted) -> list[tuple[str, str]]:
    """The (dtype, form) pairs that an operator has; errors have no dtype."""
    pairs = [(dtype, form) for form in wanted for dtype in dtypes
             if form != "errors" and forms.applies(op, forms.dtype_of(dtype), form)]  # fmt: skip
    if "errors" in wanted and op.error_inputs_func is not None:
        pairs.append(("-", "errors"))
    return pairs


def run_case(op, dtype: str, form: str) -> list[rows.Row]:
    """Verdicts of one dtype and form; an error of the net itself is a row, too."""
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        with torch_spyre.config.patch(profile=forms.profile_of(dtype)):
            return judge.cases(op, dtype, form)
    except Slow:
        return [rows.Row(op.formatted_name, dtype, form, "small", "slow", why=f"{LIMIT_S} s")]
    except Exception as error:
        if os.environ.get("OPS_DEBUG"):
            raise
        why = f"the net: {type(error).__name__}: {error}".splitlines()[0][:200]
        return [rows.Row(op.formatted_name, dtype, form, "small", "slow", why=why)]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main(folder: str, dtypes: str, wanted: str) -> None:
    signal.signal(signal.SIGPROF, _alarm)
    torch.set_num_threads(1)
    # For PyTorch's log only; it flushes the caches, a fifth of the time of a small graph.
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0
    database = load()
    store = rows.Store(Path(folder))
    print("ready", flush=True)
    for line in sys.stdin:
        op = database[line.strip()]
        done = store.read(op.formatted_name)[1]
        for dtype, form in planned(op, dtypes.split(","), wanted.split(",")):
            if (dtype, form) not in done:
                print(f"case {dtype} {form}", flush=True)
                store.write(rows.merge(run_case(op, dtype, form)))
                store.finish(op.formatted_name, dtype, form)
        print(f"done {op.formatted_name}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
