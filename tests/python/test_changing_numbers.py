# SPDX-License-Identifier: Apache-2.0
"""Calls of functions whose number changes, as in a loop of training: after a few numbers no program
is made for another one."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
import torch_spyre
from torch_spyre.compile import call_compiler
from torch_spyre.eager import operator_program, programs_by_number

NUMBERS = [0.31 + 0.047 * i for i in range(12)]
FEW = 8  # numbers, the classes of lerp's among them, until all programs are there


def _operands(dtype):
    r = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=r).to(dtype).to("spyre")

    return SimpleNamespace(
        x=normal(6, 70) * 2, y=normal(6, 70), w=normal(70), v=normal(64), sq=normal(64, 64),
        im=normal(2, 8, 6, 6), q=normal(1, 2, 8, 64), m=normal(6, 70) > 0, sgn=normal(6).sign(),
        p=(torch.rand(6, 70, generator=r) * 0.9 + 0.05).to(dtype).to("spyre"),
        t=torch.randint(0, 70, (6,), generator=r).to("spyre"), idx=torch.tensor([0, 3]).to("spyre"),
    )  # fmt: skip


CALLS = {
    "celu": lambda d, s: F.celu(d.x, s),
    "elu": lambda d, s: F.elu(d.x, s),
    "leaky_relu": lambda d, s: F.leaky_relu(d.x, s),
    "hardshrink": lambda d, s: F.hardshrink(d.x, s),
    "softshrink": lambda d, s: F.softshrink(d.x, s),
    "threshold": lambda d, s: F.threshold(d.x, s, 2 * s),
    "softplus": lambda d, s: F.softplus(d.x, 1 + s, 20),
    "threshold of softplus": lambda d, s: F.softplus(d.x, 1, 20 + s),
    "hardtanh": lambda d, s: F.hardtanh(d.x, -s, s),
    "huber_loss": lambda d, s: F.huber_loss(d.x, d.y, delta=s),
    "smooth_l1_loss": lambda d, s: F.smooth_l1_loss(d.x, d.y, beta=s),
    "margin_ranking_loss": lambda d, s: F.margin_ranking_loss(
        d.x[:, 0], d.y[:, 0], d.sgn, margin=s
    ),
    "hinge_embedding_loss": lambda d, s: F.hinge_embedding_loss(d.x[:, 0], d.sgn, margin=s),
    "cosine_embedding_loss": lambda d, s: F.cosine_embedding_loss(d.x, d.y, d.sgn, margin=s),
    "triplet_margin_loss": lambda d, s: F.triplet_margin_loss(d.x, d.y, d.p, margin=s),
    "multi_margin_loss": lambda d, s: F.multi_margin_loss(d.x, d.t, margin=s),
    "poisson_nll_loss": lambda d, s: F.poisson_nll_loss(d.x, d.p, log_input=False, eps=s),
    "gaussian_nll_loss": lambda d, s: F.gaussian_nll_loss(d.x, d.y, d.p, eps=s),
    "label smoothing": lambda d, s: F.cross_entropy(d.x, d.t, label_smoothing=s),
    "dropout": lambda d, s: F.dropout(d.x, s),
    "alpha_dropout": lambda d, s: F.alpha_dropout(d.x, s, training=True),
    "rrelu": lambda d, s: F.rrelu(d.x, s / 2, s),
    "normalize": lambda d, s: F.normalize(d.x, eps=s),
    "cosine_similarity": lambda d, s: F.cosine_similarity(d.x, d.y, eps=s),
    "pairwise_distance": lambda d, s: F.pairwise_distance(d.x, d.y, eps=s),
    "layer_norm": lambda d, s: F.layer_norm(d.x, (70,), d.w, d.w, eps=s),
    "group_norm": lambda d, s: F.group_norm(d.im, 2, eps=s),
    "batch_norm": lambda d, s: F.batch_norm(d.im, None, None, training=True, eps=s),
    "momentum of batch_norm": lambda d, s: F.batch_norm(
        d.im, d.v[:8].clone(), d.v[8:16].abs(), training=True, momentum=s
    ),
    "rms_norm": lambda d, s: F.rms_norm(d.x, (70,), d.w, eps=s),
    "local_response_norm": lambda d, s: F.local_response_norm(d.im, 3, alpha=s, beta=s, k=1 + s),
    "attention": lambda d, s: F.scaled_dot_product_attention(d.q, d.q, d.q, scale=s),
    "gumbel_softmax": lambda d, s: F.gumbel_softmax(d.x, tau=s),
    "lerp": lambda d, s: torch.lerp(d.x, d.y, s),
    "addcmul": lambda d, s: torch.addcmul(d.x, d.y, d.y, value=s),
    "addcdiv": lambda d, s: torch.addcdiv(d.x, d.y, d.p, value=s),
    "addmm": lambda d, s: torch.addmm(d.sq, d.sq, d.sq, alpha=s, beta=2 * s),
    "addmv": lambda d, s: torch.addmv(d.v, d.sq, d.v, alpha=s, beta=2 * s),
    "addr": lambda d, s: torch.addr(d.sq, d.v, d.v, alpha=s, beta=2 * s),
    "baddbmm": lambda d, s: torch.baddbmm(d.sq[None], d.sq[None], d.sq[None], alpha=s, beta=2 * s),
    "addbmm": lambda d, s: torch.addbmm(d.sq, d.sq[None], d.sq[None], alpha=s, beta=2 * s),
    "clamp": lambda d, s: d.x.clamp(-s, s),
    "nan_to_num": lambda d, s: torch.nan_to_num(d.x, s, s, s),
    "pow": lambda d, s: d.p ** (2 * s + 0.03),
    "pow of a number": lambda d, s: (s + 1.1) ** d.x,
    "float_power": lambda d, s: torch.float_power(d.p, s),
    "fmod": lambda d, s: torch.fmod(d.x, s),
    "remainder": lambda d, s: d.x % s,
    "floor_divide": lambda d, s: d.x // s,
    "copysign": lambda d, s: torch.copysign(d.x, s),
    "xlogy": lambda d, s: torch.xlogy(d.x, s),
    "logit": lambda d, s: torch.logit(d.p, s / 4),
    "renorm": lambda d, s: torch.renorm(d.x, 2, 0, s),
    "dist": lambda d, s: torch.dist(d.x, d.y, 1 + s),
    "norm": lambda d, s: torch.norm(d.x, 1 + s, dim=1),
    "cdist": lambda d, s: torch.cdist(d.x, d.y, 1 + s),
    "isclose": lambda d, s: torch.isclose(d.x, d.y, s, s),
    "histc": lambda d, s: torch.histc(d.x, 8, -s, s),
    "linspace": lambda d, s: torch.linspace(0, s, 9, device="spyre"),
    "full": lambda d, s: torch.full((3,), s, device="spyre"),
    "masked_fill": lambda d, s: d.x.masked_fill(d.m, s),
    "index_fill": lambda d, s: d.x.index_fill(0, d.idx, s),
    "index_add": lambda d, s: d.x.index_add(0, d.idx, d.y[:2], alpha=s),
    "scatter": lambda d, s: d.x.scatter(0, d.t[None] % 6, s),
    "scatter that adds": lambda d, s: d.x.scatter(0, d.t[None] % 6, s, reduce="add"),
    "where": lambda d, s: torch.where(d.m, d.x, s),
    "quantile": lambda d, s: torch.quantile(d.x.float(), s),
    "var": lambda d, s: d.x.var(1, correction=s),
    "std": lambda d, s: d.x.std(1, correction=s),
    "trapezoid": lambda d, s: torch.trapezoid(d.x, dx=s),
    "cumulative_trapezoid": lambda d, s: torch.cumulative_trapezoid(d.x, dx=s),
    "gradient": lambda d, s: torch.gradient(d.x, spacing=s, dim=1)[0],
    "assignment": lambda d, s: d.x.clone().__setitem__((slice(None), 3), s),
    "fill_": lambda d, s: d.x.clone().fill_(s),
    "mul_": lambda d, s: d.x.clone().mul_(s),
    "fill_diagonal": lambda d, s: d.sq.clone().fill_diagonal_(s),
    "rsub": lambda d, s: s - d.x,
    "rdiv": lambda d, s: s / d.x,
    "pad": lambda d, s: F.pad(d.x, (1, 2), value=s),
    "searchsorted": lambda d, s: torch.searchsorted(d.v.sort()[0].float(), s),
    "foreach_mul": lambda d, s: torch._foreach_mul([d.x, d.y], s),
    "foreach_add": lambda d, s: torch._foreach_add([d.x, d.y], [d.y, d.x], alpha=s),
    "foreach_addcdiv": lambda d, s: torch._foreach_addcdiv([d.x, d.y], [d.y, d.x], [d.p, d.p], s),
    "foreach_lerp": lambda d, s: torch._foreach_lerp([d.x, d.y], [d.y, d.x], s),
    "foreach_pow": lambda d, s: torch._foreach_pow([d.p], s + 0.03),
    "foreach_clamp": lambda d, s: torch._foreach_clamp_max([d.x], s),
    "softmax of a temperature": lambda d, s: (d.x / s).softmax(-1),
    "integers": lambda d, s: d.t * int(s * 100),
    "round": lambda d, s: torch.round(d.x * s),
    "bernoulli": lambda d, s: d.x.clone().bernoulli_(s),
    "uniform": lambda d, s: d.x.clone().uniform_(0, s),
    "normal": lambda d, s: d.x.clone().normal_(0, s),
    "soft_margin_loss": lambda d, s: F.soft_margin_loss(d.x * s, d.m.to(d.x.dtype)),
    "std_mean": lambda d, s: torch.std_mean(d.x, 1, correction=s),
    "clipped gradients": lambda d, s: torch.nn.utils.clip_grads_with_norm_(
        [d.x.clone().requires_grad_()], s, torch.tensor(3.0, device="spyre")
    ),
    "lp_pool": lambda d, s: F.lp_pool2d(d.im.abs() + 0.1, 1 + s, 2),
    "logspace": lambda d, s: torch.logspace(0, s, 9, device="spyre"),
    "comparison": lambda d, s: d.x == s,
    "gated": lambda d, s: d.x.clamp(max=s) * torch.sigmoid(d.x * s),
}

NORM = "eps is one of few, and stands in the instruction that norms of rows are made of"
FEW_ARE = "one of few"

# Numbers that stand in programs of 16 bits, and why.
OF_VALUES = {
    "layer_norm": NORM, "group_norm": NORM,
    "var": FEW_ARE, "std": FEW_ARE, "std_mean": FEW_ARE,
}  # fmt: skip


def _run(call, operands, number, with_gradient):
    """The result and gradients, or None for a function without."""
    torch.manual_seed(7)
    if not with_gradient:
        return [call(operands, number)]
    names = [n for n, v in vars(operands).items() if v.is_floating_point()]
    leaves = {name: getattr(operands, name).clone().requires_grad_() for name in names}
    result = call(SimpleNamespace(**{**vars(operands), **leaves}), number)
    result = result[0] if isinstance(result, (tuple, list)) else result
    if result is None or not result.requires_grad:
        return None
    result.float().sum().backward()
    return [result, *(leaf.grad for leaf in leaves.values())]


WITHOUT_GRADIENT = {"floor_divide", "scatter that adds", "momentum of batch_norm"}
RUNS = [(n, g) for n in CALLS for g in (False, True) if not (g and n in WITHOUT_GRADIENT)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=["float16", "float32"])
@pytest.mark.parametrize("name, with_gradient", RUNS)
def test_no_program_for_another_number(name, with_gradient, dtype, counted):
    operands, counts = _operands(dtype), []
    with torch_spyre.fallback("silent"):
        for number in NUMBERS:
            before = len(counted)
            if _run(CALLS[name], operands, number, with_gradient) is None:
                return
            counts.append(len(counted) - before)
    of_value = name in OF_VALUES
    if dtype is torch.float16 or not of_value:
        assert (sum(counts[FEW:]) > 0) == of_value, (counts, counted[-3:])


def _leaves(results):
    for result in results:
        if isinstance(result, torch.Tensor):
            yield result.detach().cpu()
        elif isinstance(result, (tuple, list)):
            yield from _leaves(result)


@pytest.mark.parametrize("trials", [12, pytest.param(300, marks=pytest.mark.long)])
def test_random_sequences_give_what_programs_by_value_do(trials, monkeypatch):
    """The same bits in float32; parts may round to 16 bits where the whole does not."""
    r = torch.Generator().manual_seed(trials)
    pick = lambda of: of[int(torch.randint(len(of), (), generator=r))]  # noqa: E731
    for _ in range(trials):
        name, with_gradient = pick(RUNS)
        dtype = pick([torch.float16, torch.bfloat16, torch.float32])
        operands, ulp = (
            _operands(dtype),
            0 if dtype is torch.float32 else 2 * torch.finfo(dtype).eps,
        )
        numbers = [pick([*NUMBERS, 1.0, 0.5]) for _ in range(5)]
        found = []
        for takes_scalars in (True, False):
            operator_program.programs.clear()
            monkeypatch.setattr(call_compiler, "takes_scalars", lambda takes=takes_scalars: takes)
            most = programs_by_number.MOST_NUMBERS if takes_scalars else 1000
            monkeypatch.setattr(programs_by_number, "MOST_NUMBERS", most)
            with torch_spyre.fallback("silent"):
                made = [_run(CALLS[name], operands, number, with_gradient) for number in numbers]
            found.append([list(_leaves(results or ())) for results in made])
        for ours, theirs, number in zip(*found, numbers, strict=True):
            for one, other in zip(ours, theirs, strict=True):
                torch.testing.assert_close(
                    one, other, rtol=ulp, atol=ulp, equal_nan=True, msg=f"{name} {number}"
                )
