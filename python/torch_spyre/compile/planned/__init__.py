# SPDX-License-Identifier: Apache-2.0
"""What the planner decided, as data and under torch-spyre's names."""
