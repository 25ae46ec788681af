# SPDX-License-Identifier: Apache-2.0
"""Operators of whole layers: attention, transformer layers, norms and pooling of torch.nn."""
