# SPDX-License-Identifier: Apache-2.0
"""int64 arithmetic on a card that computes integers in 32 bits."""
