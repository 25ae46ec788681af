# SPDX-License-Identifier: Apache-2.0
"""Random programs of views, element-wise ops, reductions and products, compiled for the card and
compared with the CPU in fp32 on the same fp16 inputs."""

import random

import pytest
import torch

SIZES = (1, 2, 3, 5, 8, 12, 32, 40, 64, 65, 96, 128)


class Program:
    """A list of steps; each takes the tensors so far and appends one."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        rank = self.random.randint(2, 3)
        self.shape = tuple(self.random.choice(SIZES) for _ in range(rank))
        self.steps = []
        shape = self.shape
        for _ in range(self.random.randint(3, 8)):
            step, shape = self._choose(shape)
            self.steps.append(step)

    def _choose(self, shape):
        choices = [
            self._pointwise,
            self._permute,
            self._normalise,
            self._add_self,
            self._slice,
            self._split_last,
            self._merge,
            self._matmul,
            self._cat,
            self._reduce,
        ]
        while True:
            result = self.random.choice(choices)(shape)
            if result is not None:
                return result

    def _pointwise(self, shape):
        op = self.random.choice(
            [
                torch.relu,
                torch.sigmoid,
                torch.tanh,
                torch.neg,
                lambda x: x * 0.5 + 1,
                torch.nn.functional.gelu,
            ]
        )
        return op, shape

    def _permute(self, shape):
        order = list(range(len(shape)))
        self.random.shuffle(order)
        return (lambda x: x.permute(order)), tuple(shape[d] for d in order)

    def _normalise(self, shape):
        dim = self.random.randrange(len(shape))
        return (lambda x: torch.softmax(x, dim)), shape

    def _add_self(self, shape):
        return (lambda x: x + torch.tanh(x.contiguous())), shape

    def _slice(self, shape):
        dim = self.random.randrange(len(shape))
        if shape[dim] < 3:
            return None
        start = self.random.randint(0, shape[dim] - 2)
        stop = self.random.randint(start + 1, shape[dim])
        new = shape[:dim] + (stop - start,) + shape[dim + 1 :]
        return (lambda x: x.narrow(dim, start, stop - start)), new

    def _split_last(self, shape):
        parts = [p for p in (2, 3, 4, 8) if shape[-1] % p == 0]
        if not parts or len(shape) > 3:
            return None
        new = shape[:-1] + ((p := self.random.choice(parts)), shape[-1] // p)
        return (lambda x: x.reshape(new)), new

    def _merge(self, shape):
        if len(shape) < 3:
            return None
        dim = self.random.randrange(len(shape) - 1)
        new = shape[:dim] + (shape[dim] * shape[dim + 1],) + shape[dim + 2 :]
        return (lambda x: x.reshape(new)), new

    def _matmul(self, shape):
        if shape[-1] * shape[-2] > 8192 or len(shape) > 3:
            return None
        return ((lambda x: x @ (x.transpose(-1, -2) / shape[-1])), shape[:-1] + (shape[-2],))

    def _cat(self, shape):
        dim = self.random.randrange(len(shape))
        if shape[dim] > 128:
            return None
        new = shape[:dim] + (shape[dim] * 2,) + shape[dim + 1 :]
        return (lambda x: torch.cat([x, torch.relu(x)], dim)), new

    def _reduce(self, shape):
        dim = self.random.randrange(len(shape))
        op = self.random.choice([torch.mean, torch.amax, torch.amin])
        return (lambda x: x - op(x, dim, keepdim=True)), shape

    def __call__(self, x):
        for step in self.steps:
            x = step(x)
        return x


@pytest.mark.parametrize("seed", range(30))
def test_random_program_matches_the_cpu(seed):
    program = Program(seed)
    torch.manual_seed(seed)
    x = torch.randn(program.shape, dtype=torch.float16)
    torch._dynamo.reset()
    want = program(x.float())
    got = torch.compile(program.__call__, dynamic=False)(x.to("spyre")).cpu()
    assert got.shape == want.shape
    scale = max(want.abs().max().item(), 1.0)
    torch.testing.assert_close(got.float() / scale, want / scale, atol=0.02, rtol=0.02)
