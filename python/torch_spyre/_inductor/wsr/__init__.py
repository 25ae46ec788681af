# SPDX-License-Identifier: Apache-2.0
"""Hints, under torch-spyre's module name."""
