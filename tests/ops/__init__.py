# SPDX-License-Identifier: Apache-2.0
"""The operator net: PyTorch's operator database on the device.

`python -m ops` (with `tests` on the path; `make test-ops` does it) runs every operator of
`torch.testing._internal.common_methods_invocations.op_db` in every form and dtype and gives each
case a verdict (rows.py). table.py folds the rows into the table `operators.txt`, from which
tools/operators_page.py writes docs/operators.md; ratchet.py says what must stay on the card.
"""
