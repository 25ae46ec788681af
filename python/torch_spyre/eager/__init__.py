# SPDX-License-Identifier: Apache-2.0
"""Operators one by one: on the card, or on the host."""
