# SPDX-License-Identifier: Apache-2.0
"""What people write by hand out of many operators, a row each: losses, filters, stencils, routing,
geometry, signals. No row is here for the sake of a form that the compiler knows."""

import torch
import torch.nn.functional as F
from patterns import Index, Pattern, Weight, of, one

Tensor = torch.Tensor


# --- Losses and metrics


def _focal(x: Tensor, y: Tensor) -> Tensor:
    p, t = torch.sigmoid(x), y.sigmoid()
    loss = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    return (loss * (1 - p * t - (1 - p) * (1 - t)).square()).mean()


def _dice(x: Tensor, y: Tensor) -> Tensor:
    p, q = x.softmax(1), y.sigmoid()
    both = (p * q).sum((2, 3))
    return 1 - (2 * both + 1) / (p.sum((2, 3)) + q.sum((2, 3)) + 1)


def _boxes_in_common(a: Tensor, b: Tensor) -> Tensor:
    low = torch.maximum(a[:, None, :2], b[None, :, :2])
    high = torch.minimum(a[:, None, 2:] + 4, b[None, :, 2:] + 4)
    sides = (high - low).clamp(min=0)
    both = sides[..., 0] * sides[..., 1]
    return both / (33 - both)


def _contrastive(a: Tensor, b: Tensor) -> Tensor:
    n = a.shape[0]
    z = torch.cat([F.normalize(a, dim=1), F.normalize(b, dim=1)])
    alike = (z @ z.T * 2).masked_fill(torch.eye(2 * n, dtype=torch.bool, device=a.device), -1e4)
    partners = torch.arange(2 * n, device=a.device).roll(n)
    return F.cross_entropy(alike, partners)


def _total_variation(x: Tensor) -> Tensor:
    return (x[:, :, 1:] - x[:, :, :-1]).abs().mean() + (x[..., 1:] - x[..., :-1]).abs().mean()


def _structural_similarity(x: Tensor, y: Tensor) -> Tensor:
    def mean(t: Tensor) -> Tensor:
        return F.avg_pool2d(t, 7, 1)

    a, b = mean(x), mean(y)
    of_x, of_y, both = mean(x * x) - a * a, mean(y * y) - b * b, mean(x * y) - a * b
    return (
        (2 * a * b + 0.01) * (2 * both + 0.03) / ((a * a + b * b + 0.01) * (of_x + of_y + 0.03))
    ).mean()


# --- Images


def _blur(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(F.pad(x, (2, 2, 2, 2), mode="reflect"), w, groups=x.shape[1])


def _edges(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, padding=1).square().sum(1).sqrt()


def _automaton(x: Tensor) -> Tensor:
    alive = (x > 0).to(x.dtype)
    around = F.conv2d(alive, torch.ones(1, 1, 3, 3, dtype=x.dtype, device=x.device), padding=1)
    around = around - alive
    return ((around == 3) | ((alive == 1) & (around == 2))).to(x.dtype)


def _squeeze_and_excite(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    scale = torch.sigmoid(F.relu(x.mean((2, 3)) @ a.T) @ b.T)
    return x * scale[:, :, None, None]


def _norm_of_channels(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Of ConvNeXt."""
    mean = x.mean(1, keepdim=True)
    spread = (x - mean).pow(2).mean(1, keepdim=True)
    return w[:, None, None] * (x - mean) / torch.sqrt(spread + 1e-3) + b[:, None, None]


def _response_norm(x: Tensor) -> Tensor:
    """Of ConvNeXt V2."""
    norm = x.float().norm(p=2, dim=(2, 3), keepdim=True).to(x.dtype)
    return x * (norm / (norm.mean(1, keepdim=True) + 1e-3)) + x


def _places_as_channels(x: Tensor) -> Tensor:
    n, _, h, w = x.shape
    rows = torch.linspace(-1, 1, h, device=x.device, dtype=x.dtype).view(1, 1, h, 1)
    columns = torch.linspace(-1, 1, w, device=x.device, dtype=x.dtype).view(1, 1, 1, w)
    return torch.cat([x, rows.expand(n, 1, h, w), columns.expand(n, 1, h, w)], 1)


def _patches(x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // 16, 16, w // 16, 16).permute(0, 2, 4, 3, 5, 1)
    return x.reshape(n, h * w // 256, 256 * c)


# --- Stencils


def _heat_by_slices(u: Tensor) -> Tensor:
    v = u.clone()
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    v[1:-1, 1:-1] += 0.1 * (around - 4 * u[1:-1, 1:-1])
    return v


def _heat_by_rolls(u: Tensor) -> Tensor:
    return u + 0.1 * (u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1) - 4 * u)


# --- Signals


def _smoothed(x: Tensor) -> Tensor:
    """By an exponential window of 32."""
    window = 0.9 ** torch.arange(32, device=x.device, dtype=x.dtype)
    return F.conv1d(F.pad(x[:, None], (31, 0)), window.flip(0)[None, None])[:, 0]


def _moving_mean(x: Tensor) -> Tensor:
    sums = F.pad(x.float().cumsum(1), (1, 0))
    return ((sums[:, 64:] - sums[:, :-64]) / 64).to(x.dtype)


def _causal_conv(x: Tensor, w: Tensor) -> Tensor:
    return F.silu(F.conv1d(F.pad(x, (w.shape[2] - 1, 0)), w, groups=x.shape[1]))


# --- Sequences and tokens


def _linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k = F.elu(q) + 1, F.elu(k) + 1
    return q @ (k.transpose(-1, -2) @ v) / ((q * k.sum(2, keepdim=True)).sum(-1, keepdim=True) + 1)


def _pooled_by_attention(x: Tensor, w: Tensor) -> Tensor:
    return ((x @ w).softmax(1)[..., None] * x).sum(1)


def _masked_mean(x: Tensor, m: Tensor) -> Tensor:
    m = (m > 0).to(x.dtype)[..., None]
    return (x * m).sum(1) / (m.sum(1) + 1e-2)


def _experts_chosen(x: Tensor) -> Tensor:
    p, chosen = x.softmax(-1).topk(2)
    return torch.zeros_like(x).scatter(1, chosen, p / p.sum(-1, keepdim=True))


def _likely_tokens(x: Tensor) -> Tensor:
    """All behind 90 % of the probability left out; what is left as probabilities."""
    values, order = torch.sort(x, descending=True)
    p = values.softmax(-1)
    kept = torch.where(p.cumsum(-1) - p < 0.9, p, 0.0)
    return torch.zeros_like(x).scatter(1, order, kept)


def _penalised(x: Tensor, i: Tensor) -> Tensor:
    chosen = x.gather(1, i)
    return x.scatter(1, i, torch.where(chosen < 0, chosen * 1.2, chosen / 1.2))


def _best_paths(x: Tensor, t: Tensor) -> Tensor:
    """Viterbi over 16 steps."""
    score = x[:, 0]
    for step in range(1, 16):
        score = (score[:, :, None] + t).max(1)[0] + x[:, step]
    return score


def _all_paths(x: Tensor, t: Tensor) -> Tensor:
    score = x[:, 0]
    for step in range(1, 16):
        score = torch.logsumexp(score[:, :, None] + t, 1) + x[:, step]
    return score


# --- Neighbours, graphs, geometry


def _code_distances(x: Tensor, codes: Tensor) -> Tensor:
    return (x * x).sum(1, keepdim=True) - 2 * x @ codes.T + (codes * codes).sum(1)


def _messages(x: Tensor, source: Tensor, target: Tensor) -> Tensor:
    return torch.zeros_like(x).index_add(0, target, x[source])


def _rotated(r: Tensor, p: Tensor) -> Tensor:
    return (r @ p[..., None])[..., 0]


def _rendered(d: Tensor, c: Tensor) -> Tensor:
    """A ray's colour from densities and colours along it."""
    alpha = 1 - torch.exp(-d.abs())
    left = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-3], 1), 1)
    return ((alpha * left[:, :-1])[..., None] * c).sum(1)


def _frequencies(x: Tensor) -> Tensor:
    return torch.cat([x] + [f(x * 2**k) for k in range(4) for f in (torch.sin, torch.cos)], -1)


def _transport(c: Tensor) -> Tensor:
    """Five rounds of Sinkhorn."""
    n = c.shape[0]
    k = torch.exp(-c.abs())
    u = torch.full((n,), 1 / n, device=c.device, dtype=c.dtype)
    for _ in range(5):
        v = 1 / (k.T @ u + 1e-3) / n
        u = 1 / (k @ v + 1e-3) / n
    return u[:, None] * k * v


# --- Numbers


def _option_prices(s: Tensor) -> Tensor:
    s = 32 * s.abs() + 0.5
    d = (torch.log(s) + 0.05) / 0.2

    def below(z: Tensor) -> Tensor:
        return 0.5 * (1 + torch.erf(z * 0.7071))

    return s * below(d) - 0.95 * below(d - 0.2)


def _polynomial(x: Tensor) -> Tensor:
    y = torch.full_like(x, 0.1)
    for c in (0.2, 0.3, 0.4, 0.5, 0.6):
        y = y * x + c
    return y


def _adam(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> Tensor:
    m, v = 0.9 * m + 0.1 * g, 0.99 * v.abs() + 0.01 * g * g
    return p - 0.01 * m / (v.sqrt() + 0.1)


def _min_max(x: Tensor) -> Tensor:
    low = x.amin(1, keepdim=True)
    return (x - low) / (x.amax(1, keepdim=True) - low + 1e-2)


EVERYDAY: dict[str, Pattern] = {
    "focal loss": of(_focal, ((4096, 80),) * 2),
    "dice loss": of(_dice, ((8, 4, 128, 128),) * 2),
    "boxes in common": of(_boxes_in_common, ((512, 4),) * 2),
    "contrastive loss": of(_contrastive, ((512, 256),) * 2),
    "total variation": one(_total_variation, (8, 3, 256, 256)),
    "structural similarity": of(_structural_similarity, ((4, 3, 128, 128),) * 2),
    "blur": of(_blur, ((8, 3, 128, 128), (3, 1, 5, 5))),
    "edges": of(_edges, ((8, 1, 256, 256), (2, 1, 3, 3))),
    "automaton": one(_automaton, (1, 1, 1024, 1024)),
    "squeeze and excite": of(_squeeze_and_excite, ((8, 256, 56, 56), (16, 256), (256, 16))),
    "norm of channels": of(_norm_of_channels, ((8, 64, 56, 56), (64,), (64,))),
    "response norm": one(_response_norm, (8, 96, 56, 56)),
    "places as channels": one(_places_as_channels, (8, 64, 64, 64)),
    "patches of pixels": one(_patches, (8, 3, 224, 224)),
    "colours last": one(lambda x: x.permute(0, 2, 3, 1).contiguous(), (8, 3, 224, 224)),
    "shuffled channels": one(
        lambda x: x.unflatten(1, (4, 16)).transpose(1, 2).flatten(1, 2), (8, 64, 56, 56)),
    "heat by slices": one(_heat_by_slices, (1024, 1024)),
    "heat by rolls": one(_heat_by_rolls, (1024, 1024)),
    "smoothed signals": one(_smoothed, (512, 2048)),
    "moving mean": one(_moving_mean, (512, 2048)),
    "frames of signals": one(lambda x: x.unfold(1, 64, 32) * 0.5, (512, 2048)),
    "differences of signals": one(
        lambda x: torch.cat([x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]], 1), (512, 2048)),
    "causal conv1d": of(_causal_conv, ((16, 64, 2048), (64, 1, 4))),
    "linear attention": of(_linear_attention, ((8, 8, 128, 64),) * 3),
    "pooled by attention": of(_pooled_by_attention, ((64, 128, 512), (512,))),
    "value head": of(F.linear, ((8192, 512), Weight((1, 512)), (1,))),
    "class head": of(F.linear, ((8192, 512), Weight((10, 512)), (10,))),
    "masked mean": of(_masked_mean, ((64, 128, 512), (64, 128))),
    "experts chosen": one(_experts_chosen, (2048, 64)),
    "likely tokens": one(_likely_tokens, (8, 32000)),
    "penalised tokens": of(_penalised, ((64, 32000), Index((64, 128), 32000, distinct=True))),
    "best paths": of(_best_paths, ((32, 64, 32), (32, 32))),
    "all paths": of(_all_paths, ((32, 64, 32), (32, 32))),
    "distances to codes": of(_code_distances, ((2048, 64), (512, 64))),
    "distances": of(lambda a, b: torch.cdist(a, b), ((1024, 64), (2048, 64))),
    "messages of a graph": of(
        _messages, ((4096, 64), Index((16384,), 4096), Index((16384,), 4096))),
    "rotated points": of(_rotated, ((65536, 3, 3), (65536, 3))),
    "points by one rotation": of(lambda x, r: x @ r.T, ((65536, 3), Weight((3, 3)))),
    "small matrices": of(torch.bmm, ((4096, 4, 4),) * 2, ((4096, 16, 16),) * 2),
    "rendered rays": of(_rendered, ((4096, 64), (4096, 64, 3))),
    "frequencies": one(_frequencies, (16384, 3)),
    "transport": one(_transport, (256, 256)),
    "option prices": one(_option_prices, (1 << 20,)),
    "polynomial": one(_polynomial, (1 << 21,)),
    "step of Adam": of(_adam, ((1 << 20,),) * 4),
    "min and max": one(_min_max, (2048, 1024)),
    "standardized": one(lambda x: (x - x.mean(0)) / (x.std(0) + 1e-2), (2048, 1024)),
    "covariance": one(lambda x: torch.cov(x.T), (2048, 512)),
    "bilinear form": of(
        lambda m, v: torch.einsum("bij,bi,bj->b", m, v, v), ((512, 64, 64), (512, 64))),
    "outer products": of(lambda a, b: a[:, :, None] * b[:, None], ((4096, 32),) * 2),
}  # fmt: skip
