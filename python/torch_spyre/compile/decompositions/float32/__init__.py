# SPDX-License-Identifier: Apache-2.0
"""Functions of float32 out of those that a card has in float32."""
