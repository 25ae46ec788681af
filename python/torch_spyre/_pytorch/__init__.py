# SPDX-License-Identifier: Apache-2.0
"""The boundary to PyTorch: every private name of it that the package uses."""
