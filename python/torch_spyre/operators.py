# SPDX-License-Identifier: Apache-2.0
"""What becomes of operators on the card: `python -m torch_spyre.operators [WORD ...]`.

Prints the rows of torch_spyre.registry.listing() whose operator contains one of the
words: operator, who knows it, by which function.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from . import registry


def main(words: Sequence[str]) -> None:
    """Prints the rows whose operator contains one of the words; all of them without a word.

    Raises: SystemExit, with a message, where there is none.
    """
    rows = [r for r in registry.listing() if not words or any(word in r[0] for word in words)]
    if words and not rows:
        sys.exit(f"torch_spyre.operators: no operator is named with {' or '.join(words)}")
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(2)]
    for operator, kind, where in rows:
        print(f"{operator:{widths[0]}}  {kind:{widths[1]}}  {where}".rstrip())


if __name__ == "__main__":
    main(sys.argv[1:])
