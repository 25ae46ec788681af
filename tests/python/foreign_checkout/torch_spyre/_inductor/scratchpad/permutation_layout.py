# SPDX-License-Identifier: Apache-2.0
"""Where torch-spyre has its packer in Python."""


class PermutationBasedLayoutSolver:
    def __init__(self, buffers, permutation, capacity, alignment=128, eligible=None):
        self.buffers = buffers

    def swap(self, i):
        return 0.5

    rotate = resize = set_eligible = swap
