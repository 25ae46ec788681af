# SPDX-License-Identifier: Apache-2.0
"""Tensors without dims take part in every operator that PyTorch lets them: a number has a dim 0."""

import pytest
import torch
import torch.nn.functional as F

CALLS = """
x.flip(0); x.flip(-1); x.flip(()); x.gather(0, zero); x.scatter(0, zero, 2)
x.scatter(0, zero, y); x.scatter_add(0, zero, y); x.scatter_reduce(0, zero, y, "amax")
x.index_select(0, first); x.index_select(0, zero); x.index_fill(0, first, 1)
x.index_copy(0, first, line); x.index_add(0, first, y); x.index_reduce(0, first, y, "prod")
x.put(first, line); x.take(zero); x.masked_scatter(true, line); x.masked_fill(true, 3)
x.cumsum(0); x.cumprod(-1); x.cummax(0); x.logcumsumexp(0); x.sort(); x.argsort(); x.topk(1)
x.kthvalue(1); x.median(0); x.median(); x.mode(); x.softmax(0); x.log_softmax(0); F.softmin(x, 0)
x.max(0); x.argmax(0); x.argmax(); x.aminmax(dim=0); x.amax(0); x.sum(0); x.mean(0); x.prod(0)
x.var(0, unbiased=False); x.norm(dim=0); x.logsumexp(0); x.any(); x.all(0); x.count_nonzero()
x.nansum(); x.repeat(3); x.repeat_interleave(3); x.unfold(0, 1, 1); x.tile((2,)); x.expand(3, 4)
x.view(1, 1); x.flatten(); x.squeeze(0); x.transpose(0, 0); x.permute(()); x[None]; x[...]; x[true]
torch.where(true, x, y); torch.stack([x, y]); torch.cat([x[None], y[None]]); torch.outer(line, line)
x.clamp(0, 1); x.lerp(y, 0.5); x.addcmul(x, y); x.isfinite(); x.nonzero(); torch.logaddexp(x, y)
F.normalize(x, dim=0); F.mse_loss(x, y); F.gelu(x); F.one_hot(zero, 3)
F.embedding(zero, line[None]); F.nll_loss(torch.cat([line, line]), zero); torch.bucketize(x, line)
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("call", [call.strip() for call in CALLS if call.strip()])
def test_as_on_the_cpu(call):
    results = []
    for device in ("cpu", "spyre"):
        x, y = (torch.tensor(number).half().to(device) for number in (1.0, 2.5))
        zero, first = (torch.tensor(index, device=device) for index in (0, [0]))
        names = {"torch": torch, "F": F, "x": x, "y": y, "line": y[None], "zero": zero,
                 "first": first, "true": torch.tensor(True, device=device)}  # fmt: skip
        result = eval(call, names)
        results.append(list(result) if isinstance(result, tuple) else [result])
    for expected, found in zip(*results, strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        torch.testing.assert_close(found.cpu(), expected, rtol=4e-3, atol=4e-3)
