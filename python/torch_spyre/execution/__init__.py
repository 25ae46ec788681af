# SPDX-License-Identifier: Apache-2.0
"""Running kernels that a generated program describes."""
