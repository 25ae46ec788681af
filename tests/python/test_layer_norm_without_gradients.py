# SPDX-License-Identifier: Apache-2.0
"""layer_norm without gradients is one program without statistics: the bits of native_layer_norm's
result; all other calls see PyTorch's composition."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = [torch.float16, torch.bfloat16, torch.float32]


class _Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def _operands(r, dtype):
    pick = lambda of: of[int(torch.randint(len(of), (), generator=r))]  # noqa: E731
    shape = pick([(1,), (5, 1), (3, 70), (2, 5, 64), (4, 129), (1, 1, 7), (300, 40)])
    x = torch.randn(shape, generator=r).to(dtype).to("spyre")
    x = pick([x, x[..., ::1], x[:1].expand(x.shape), x[x.shape[0] // 3 :]])
    vector = lambda: pick([None, torch.randn(shape[-1], generator=r).to(dtype).to("spyre")])  # noqa: E731
    return x, [shape[-1]], vector(), vector(), pick([1e-5, 1e-3, 0.1])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("trials", [12, pytest.param(400, marks=pytest.mark.long)])
def test_the_bits_of_native_layer_norm(trials, dtype):
    r = torch.Generator().manual_seed(trials)
    for _ in range(trials):
        given = _operands(r, dtype)
        expected = torch.native_layer_norm(*given)[0]
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                assert torch.equal(F.layer_norm(*given).cpu(), expected.cpu()), given[0].shape


def test_programs_without_statistics(counted):
    x = torch.randn(3, 71).half().to("spyre")
    with torch.no_grad():
        F.layer_norm(x, (71,))
    F.layer_norm(x.requires_grad_(), (71,)).sum().backward()
    names = [str(op) for op in counted[:2]]
    assert names == ["aten.layer_norm.default", "aten.native_layer_norm.default"]


@pytest.mark.parametrize("sizes", [(5, 64), (64,)], ids=str)
def test_others_see_the_composition(sizes):
    x, w = torch.randn(3, 5, 64), torch.randn(sizes)
    there, weight = x.half().to("spyre"), w.half().to("spyre")
    expected = F.layer_norm(x, sizes, w)
    with torch.no_grad():
        result = F.layer_norm(there, sizes, weight)
        with _Seen() as seen:
            F.layer_norm(there, sizes, weight)
    torch.testing.assert_close(result.cpu().float(), expected, rtol=1e-2, atol=1e-2)
    assert "native_layer_norm" in seen.names and "layer_norm" not in seen.names
    each = torch.vmap(lambda row: F.layer_norm(row, sizes[-1:], weight.view(-1)[:64]))
    torch.testing.assert_close(
        each(there).cpu().float(),
        F.layer_norm(x, sizes[-1:], w.view(-1)[:64]),
        rtol=1e-2,
        atol=1e-2,
    )


def test_gradients_are_those_of_the_cpu():
    x, w, b = torch.randn(6, 70), torch.randn(70), torch.randn(70)
    found = []
    for device in ("cpu", "spyre"):
        leaves = [t.half().to(device).requires_grad_() for t in (x, w, b)]
        F.layer_norm(leaves[0].detach(), (70,), *leaves[1:]).sum().backward()
        F.layer_norm(leaves[0], (70,), *leaves[1:]).square().sum().backward()
        found.append([leaf.grad.float().cpu() for leaf in leaves])
    torch.testing.assert_close(*found, rtol=2e-2, atol=5e-2)


def test_forward_gradients():
    x, t = torch.randn(4, 64).half(), torch.randn(4, 64).half()
    found = [
        torch.func.jvp(lambda x: F.layer_norm(x, (64,)), (x.to(d),), (t.to(d),))[1].cpu().float()
        for d in ("cpu", "spyre")
    ]
    torch.testing.assert_close(*found, rtol=2e-2, atol=2e-2)


def test_what_it_refuses_is_as_before():
    x = torch.randn(4, 64).half().to("spyre")
    for wrong in (
        lambda: F.layer_norm(x, (63,)),
        lambda: F.layer_norm(x, (64,), x[0, :5]),
        lambda: F.layer_norm(x, ()),
    ):
        with torch.no_grad(), pytest.raises(RuntimeError):
            wrong()
