# SPDX-License-Identifier: Apache-2.0
"""Graphs whose sizes change from call to call: which sizes share a program, and how."""
