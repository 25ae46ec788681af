# SPDX-License-Identifier: Apache-2.0
"""Convolutions and their gradients, of products of windows."""
