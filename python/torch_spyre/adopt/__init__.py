# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's own Python package on this stack: `spyre adopt DIR -- COMMAND` (docs/adopt.md).

`launch` starts the command, `startup/sitecustomize` installs `finder` in every Python that it
starts, `native` is the `torch_spyre._C` that the package of DIR imports, `differences` is what
the package expects of Python and PyTorch and this process lacks.
"""
