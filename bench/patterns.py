# SPDX-License-Identifier: Apache-2.0
"""What models are made of besides the operators of operations.py: name -> function of tensors and
the shapes that it is measured in."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Index:
    """An operand of int64 values from 0 to below `bound`; distinct: no two are the same."""

    shape: Shape
    bound: int
    distinct: bool = False


@dataclass(frozen=True)
class Mask:
    """An operand of bools, half of them true."""

    shape: Shape


@dataclass(frozen=True)
class Weight:
    """An operand that has as many rows as the batch and does not grow with it."""

    shape: Shape


@dataclass(frozen=True)
class Pattern:
    function: Callable
    variants: tuple[tuple[Shape | Index | Mask | Weight, ...], ...]  # operands, by variant


def of(function: Callable, *variants) -> Pattern:
    return Pattern(function, tuple(variants))


def one(function: Callable, *shapes: Shape) -> Pattern:
    """A pattern of one operand."""
    return Pattern(function, tuple((shape,) for shape in shapes))


def _rotary(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def _rms_norm_fp32(x, weight):
    """As transformers writes it."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


def _layer_norm_by_hand(x, weight, bias):
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).pow(2).mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + 1e-5) * weight + bias


def _batch_norm(x, mean, variance, weight, bias):
    return F.batch_norm(x, mean, variance.abs() + 0.5, weight, bias)


def _group_norm(x, weight, bias):
    return F.group_norm(x, 32, weight, bias)


def _causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _masked(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _grouped(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def _masked_softmax(x, mask):
    return x.masked_fill(mask, -65504.0).softmax(-1)


def _windows(x):
    """Windows of 7 x 7 of an image, as Swin cuts them."""
    batch, height, width, channels = x.shape
    x = x.view(batch, height // 7, 7, width // 7, 7, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, channels)


def _heads(x):
    """Heads of 64 before rows, and back together."""
    batch, rows, width = x.shape
    return x.view(batch, rows, width // 64, 64).transpose(1, 2).contiguous()


def _merge(x):
    batch, heads, rows, size = x.shape
    return x.transpose(1, 2).reshape(batch, rows, heads * size)


def _write_row(cache, row, at):
    return cache.index_copy(2, at, row)


def gradient(function: Callable, operand: int = 0) -> Callable:
    """A function of the result's gradient and the operands: the gradient of one of these."""

    def handed_back(upstream, *operands):
        def of_one(x):
            return function(*operands[:operand], x, *operands[operand + 1 :])

        return torch.func.vjp(of_one, operands[operand])[1](upstream)[0]

    return handed_back


def _loss_gradient(loss: Callable) -> Callable:
    """The gradient of a loss of (input, target): of the input."""
    return lambda x, y: torch.func.vjp(lambda x: loss(x, y), x)[1](torch.ones_like(x[0, 0]))[0]


def _squares(x, y):
    """Summed up: gradients of a mean of so many elements are below what float16 has."""
    return F.mse_loss(x, y, reduction="sum")


def _triplet(x, y, z):
    return F.triplet_margin_loss(x, y, z)


def _batch_norm_training(x, weight, bias):
    return F.batch_norm(x, None, None, weight, bias, training=True)


def _grid_sample(x, grid):
    return F.grid_sample(x, grid, align_corners=False)


PATTERNS: dict[str, Pattern] = {
    # norms
    "layer_norm": of(lambda x, w, b: F.layer_norm(x, w.shape, w, b),
                     ((32, 128, 384), (384,), (384,)), ((2048, 2048), (2048,), (2048,))),
    "layer_norm of narrow rows": of(
        lambda x, w, b: F.layer_norm(x, w.shape, w, b),
        ((8, 3136, 96), (96,), (96,)), ((8, 3136, 64), (64,), (64,))),
    "layer_norm by hand": of(_layer_norm_by_hand, ((4096, 768), (768,), (768,))),
    "rms_norm": of(lambda x, w: F.rms_norm(x, w.shape, w),
                   ((4096, 2048), (2048,)), ((512, 4096), (4096,))),
    "rms_norm of float32": of(_rms_norm_fp32, ((4096, 2048), (2048,)), ((512, 4096), (4096,))),
    "batch_norm": of(_batch_norm, ((8, 64, 56, 56), (64,), (64,), (64,), (64,)),
                     ((32, 256, 14, 14), (256,), (256,), (256,), (256,))),
    "group_norm": of(_group_norm, ((8, 64, 32, 32), (64,), (64,)),
                     ((2, 320, 64, 64), (320,), (320,))),
    "instance_norm": one(F.instance_norm, (8, 64, 32, 32)),
    "normalize": one(lambda x: F.normalize(x, dim=-1), (4096, 384)),
    # softmax
    "softmax": one(lambda x: x.softmax(-1), (8, 12, 256, 256), (64, 1000), (128, 32000)),
    "softmax of windows": one(lambda x: x.softmax(-1), (256, 3, 49, 49)),
    "softmax of dim 0": one(lambda x: x.softmax(0), (1024, 1024)),
    "softmax of dim 1": one(lambda x: x.softmax(1), (8, 512, 256)),
    "log_softmax": one(lambda x: x.log_softmax(-1), (512, 32000), (4096, 512)),
    "masked softmax": of(_masked_softmax, ((8, 12, 128, 128), Mask((8, 1, 1, 128)))),
    "causal softmax": one(
        lambda x: (x + torch.triu(torch.full_like(x[0, 0], -65504.0), 1)).softmax(-1),
        (4, 8, 256, 256)),
    "logsumexp": one(lambda x: x.logsumexp(-1), (4096, 1000)),
    # losses
    "cross_entropy": of(F.cross_entropy, ((512, 32000), Index((512,), 32000)),
                        ((4096, 1000), Index((4096,), 1000))),
    "nll_loss": of(F.nll_loss, ((4096, 1000), Index((4096,), 1000))),
    "mse_loss": of(F.mse_loss, ((4096, 1024), (4096, 1024))),
    "smooth_l1_loss": of(F.smooth_l1_loss, ((4096, 1024), (4096, 1024))),
    "bce with logits": of(lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
                          ((4096, 512), (4096, 512))),
    "kl_div": of(lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
                 ((1024, 1000), (1024, 1000))),
    "cosine_similarity": of(lambda x, y: F.cosine_similarity(x, y, dim=-1),
                            ((4096, 768), (4096, 768))),
    "l1_loss": of(F.l1_loss, ((4096, 1024), (4096, 1024))),
    "huber_loss": of(F.huber_loss, ((4096, 1024), (4096, 1024))),
    "poisson_nll_loss": of(F.poisson_nll_loss, ((4096, 512), (4096, 512))),
    "triplet_margin_loss": of(_triplet, ((4096, 256),) * 3),
    "gradient of mse_loss": of(_loss_gradient(_squares), ((4096, 1024), (4096, 1024))),
    "gradient of cross_entropy": of(_loss_gradient(F.cross_entropy),
                                    ((4096, 1000), Index((4096,), 1000))),
    # gradients of norms, softmax and activations
    "gradient of layer_norm": of(
        gradient(lambda x, w, b: F.layer_norm(x, w.shape, w, b)),
        ((4096, 768), (4096, 768), (768,), (768,))),
    "gradient of a norm's weight": of(
        gradient(lambda x, w, b: F.layer_norm(x, w.shape, w, b), 1),
        ((4096, 768), (4096, 768), (768,), (768,))),
    "gradient of rms_norm": of(gradient(lambda x, w: F.rms_norm(x, w.shape, w)),
                               ((4096, 768), (4096, 768), (768,))),
    "gradient of group_norm": of(gradient(_group_norm),
                                 ((8, 64, 32, 32), (8, 64, 32, 32), (64,), (64,))),
    "gradient of batch_norm": of(gradient(_batch_norm_training),
                                 ((8, 64, 56, 56), (8, 64, 56, 56), (64,), (64,))),
    "gradient of softmax": of(gradient(lambda x: x.softmax(-1)), ((4096, 512), (4096, 512))),
    "gradient of gelu": of(gradient(F.gelu), ((2048, 2048), (2048, 2048))),
    "batch_norm in training": of(_batch_norm_training, ((8, 64, 56, 56), (64,), (64,))),
    # masks and comparisons
    "masked_fill": of(lambda x, m: x.masked_fill(m, -1.0), ((2048, 2048), Mask((2048, 2048))),
                      ((8, 12, 256, 256), Mask((8, 1, 1, 256)))),
    "where": of(lambda m, x, y: torch.where(m, x, y),
                (Mask((2048, 2048)), (2048, 2048), (2048, 2048))),
    "where of a comparison": one(lambda x: torch.where(x > 0, x, x * 0.01), (2048, 2048)),
    "tril": one(torch.tril, (2048, 2048), (8, 512, 512)),
    "triu": one(lambda x: torch.triu(x, 1), (2048, 2048)),
    "clamp": one(lambda x: x.clamp(-1, 1), (2048, 2048)),
    "maximum": of(torch.maximum, ((2048, 2048), (2048, 2048))),
    "comparison": of(lambda x, y: x < y, ((2048, 2048), (2048, 2048))),
    # element-wise functions
    "relu": one(F.relu, (2048, 2048)),
    "gelu tanh": one(lambda x: F.gelu(x, approximate="tanh"), (2048, 2048)),
    "silu": one(F.silu, (2048, 2048)),
    "sigmoid": one(torch.sigmoid, (2048, 2048)),
    "tanh": one(torch.tanh, (2048, 2048)),
    "exp": one(torch.exp, (2048, 2048)),
    "log": one(lambda x: x.abs().add(0.1).log(), (2048, 2048)),
    "sqrt": one(lambda x: x.abs().sqrt(), (2048, 2048)),
    "rsqrt": one(lambda x: x.abs().add(0.1).rsqrt(), (2048, 2048)),
    "sin": one(torch.sin, (2048, 2048)),
    "cos": one(torch.cos, (2048, 2048)),
    "erf": one(torch.erf, (2048, 2048)),
    "softplus": one(F.softplus, (2048, 2048)),
    "hardswish": one(F.hardswish, (2048, 2048)),
    "mish": one(F.mish, (2048, 2048)),
    "leaky_relu": one(F.leaky_relu, (2048, 2048)),
    "elu": one(F.elu, (2048, 2048)),
    "pow 3": one(lambda x: x.pow(3), (2048, 2048)),
    "pow 1.7": one(lambda x: x.abs().pow(1.7), (2048, 2048)),
    "pow of tensors": of(lambda x, y: x.abs().pow(y), ((2048, 1024), (2048, 1024))),
    "remainder": one(lambda x: x % 0.75, (2048, 2048)),
    "hypot": of(torch.hypot, ((2048, 1024), (2048, 1024))),
    "round to tenths": one(lambda x: x.round(decimals=1), (2048, 2048)),
    "division": of(lambda x, y: x / (y.abs() + 0.5), ((2048, 2048), (2048, 2048))),
    "add of a row": of(torch.add, ((4096, 1024), (1024,))),
    "multiply of a column": of(torch.mul, ((4096, 1024), (4096, 1))),
    "add three": of(lambda x, y, z: x + y + z, ((2048, 2048),) * 3),
    "silu * gate of one tensor": one(
        lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1], (1024, 8192)),
    "gelu of a sum": of(lambda x, b: F.gelu(x + b), ((4096, 1536), (1536,))),
    # position
    "rotary": of(_rotary, ((4, 16, 256, 64), (256, 64), (256, 64)),
                 ((1, 32, 512, 128), (512, 128), (512, 128))),
    "embedding": of(lambda i, w: F.embedding(i, w),
                    (Index((32, 128), 30000), (30000, 384)),
                    (Index((1, 512), 32000), (32000, 1024))),
    "gather": of(lambda x, i: x.gather(1, i), ((1024, 1024), Index((1024, 64), 1024))),
    "index_select": of(lambda x, i: x.index_select(0, i), ((8192, 512), Index((2048,), 8192))),
    "take_along_dim 0": of(lambda x, i: x.gather(0, i), ((1024, 256), Index((64, 256), 1024))),
    "cache row": of(_write_row, ((2, 8, 1024, 64), (2, 8, 1, 64), Index((1,), 1024))),
    "one_hot product": of(lambda i, w: F.one_hot(i, 64).to(w.dtype) @ w,
                          (Index((4096,), 64), (64, 256))),
    "sort": one(lambda x: x.sort(-1).values, (512, 1024)),
    "scatter_add": of(lambda x, i, y: x.scatter_add(1, i, y),
                      ((1024, 1024), Index((1024, 64), 1024), (1024, 64))),
    "scatter_reduce amax": of(lambda x, i, y: x.scatter_reduce(1, i, y, "amax"),
                              ((1024, 1024), Index((1024, 64), 1024), (1024, 64))),
    "index_add": of(lambda x, i, y: x.index_add(0, i, y),
                    ((4096, 512), Index((2048,), 4096), (2048, 512))),
    "gradient of embedding": of(
        lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 8192, -1, False),
        ((2048, 512), Index((2048,), 8192))),
    "topk": one(lambda x: x.topk(8, -1).values, (512, 1024)),
    "argmax": one(lambda x: x.argmax(-1), (512, 32000), (4096, 512)),
    # shapes
    "cat of rows": of(lambda x, y: torch.cat((x, y)), ((2048, 1024), (2048, 1024))),
    "cat of columns": of(lambda x, y: torch.cat((x, y), -1), ((2048, 1024), (2048, 1024)),
                         ((4, 16, 256, 96), (4, 16, 256, 32))),
    "stack": of(lambda x, y: torch.stack((x, y), 1), ((2048, 512), (2048, 512))),
    "slice of rows": one(lambda x: x[64:1600] * 2, (2048, 1024)),
    "slice of columns": one(lambda x: x[:, 32:800] * 2, (2048, 1024)),
    "strided slice": one(lambda x: x[::2] * 2, (4096, 1024)),
    "split and add": one(lambda x: x.split(512, -1)[0] + x.split(512, -1)[1], (4096, 1024)),
    "pad": one(lambda x: F.pad(x, (1, 1, 1, 1)), (8, 64, 56, 56), (1024, 1022)),
    "flip": one(lambda x: x.flip(-1), (2048, 1024)),
    "flip of rows": one(lambda x: x.flip(0), (2048, 1024)),
    "roll": one(lambda x: x.roll((3, 3), (1, 2)), (8, 56, 56, 96)),
    "transpose": one(lambda x: x.t().contiguous(), (2048, 1024)),
    "heads": one(_heads, (32, 128, 384), (1, 2048, 1024)),
    "heads together": one(_merge, (32, 12, 128, 64)),
    "windows": one(_windows, (8, 56, 56, 96)),
    "channels last": one(lambda x: x.permute(0, 2, 3, 1).contiguous(), (8, 64, 56, 56)),
    "repeat": one(lambda x: x.repeat(4, 1), (1024, 1024)),
    "repeat of heads": one(lambda x: x.repeat_interleave(4, 1), (2, 8, 256, 64)),
    "expand and multiply": of(torch.mul, ((64, 1, 1024), (64, 32, 1))),
    # reductions
    "sum of rows": one(lambda x: x.sum(-1), (4096, 1024)),
    "sum of columns": one(lambda x: x.sum(0), (4096, 1024)),
    "mean of the middle": one(lambda x: x.mean(1), (32, 128, 384)),
    "sum of everything": one(lambda x: x.sum(), (2048, 2048)),
    "max of rows": one(lambda x: x.amax(-1), (4096, 1024)),
    "variance": one(lambda x: x.var(-1), (4096, 1024)),
    "norm": one(lambda x: x.norm(dim=-1), (4096, 1024)),
    "cumsum": one(lambda x: x.cumsum(-1), (2048, 1024)),
    "cumprod": one(lambda x: (x * 0.01 + 1).cumprod(-1), (2048, 1024)),
    "logcumsumexp": one(lambda x: x.logcumsumexp(-1), (1024, 512)),
    "cummax": one(lambda x: x.cummax(-1).values, (2048, 1024)),
    "roll of all": one(lambda x: x.roll(5), (2048, 1024)),
    "any": of(lambda m: m.any(-1), (Mask((2048, 1024)),)),
    "mean pooling": of(
        lambda x, m: (x * m.unsqueeze(-1)).sum(1) / m.sum(1, keepdim=True).clamp(min=1),
        ((32, 128, 384), (32, 128))),
    # convolutions and pooling
    "conv1d": of(lambda x, w: F.conv1d(x, w, padding=1), ((4, 80, 3000), (384, 80, 3))),
    "conv_transpose2d": of(lambda x, w: F.conv_transpose2d(x, w, stride=2),
                           ((4, 64, 28, 28), (64, 32, 2, 2))),
    "conv3d": of(lambda x, w: F.conv3d(x, w, padding=1), ((1, 16, 8, 32, 32), (16, 16, 3, 3, 3))),
    "conv2d 3x3": of(lambda x, w: F.conv2d(x, w, padding=1), ((8, 64, 28, 28), (64, 64, 3, 3)),
                     ((1, 320, 32, 32), (320, 320, 3, 3))),
    "conv2d 1x1": of(F.conv2d, ((8, 256, 28, 28), (128, 256, 1, 1))),
    "conv2d of patches": of(lambda x, w: F.conv2d(x, w, stride=16),
                            ((4, 3, 224, 224), (384, 3, 16, 16))),
    "conv2d 7x7 strided": of(lambda x, w: F.conv2d(x, w, stride=2, padding=3),
                             ((2, 3, 224, 224), (64, 3, 7, 7))),
    "depthwise conv2d": of(lambda x, w: F.conv2d(x, w, padding=1, groups=96),
                           ((4, 96, 56, 56), (96, 1, 3, 3))),
    "max_pool2d": one(lambda x: F.max_pool2d(x, 3, 2, 1), (8, 64, 56, 56)),
    "avg_pool2d": one(lambda x: F.avg_pool2d(x, 2), (8, 64, 56, 56)),
    "adaptive_avg_pool2d": one(lambda x: F.adaptive_avg_pool2d(x, 1), (8, 512, 14, 14)),
    "interpolate nearest": one(lambda x: F.interpolate(x, scale_factor=2), (2, 64, 32, 32)),
    "interpolate bilinear": one(
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (2, 64, 32, 32)),
    "interpolate bicubic": one(
        lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), (2, 64, 32, 32)),
    "grid_sample": of(_grid_sample, ((2, 16, 64, 64), (2, 64, 64, 2))),
    "max_pool2d with indices": one(
        lambda x: F.max_pool2d(x, 2, return_indices=True)[1], (8, 64, 56, 56)),
    "adaptive_max_pool2d": one(lambda x: F.adaptive_max_pool2d(x, 7), (8, 128, 28, 28)),
    "gradient of max_pool2d": of(gradient(lambda x: F.max_pool2d(x, 2)),
                                 ((8, 64, 28, 28), (8, 64, 56, 56))),
    "gradient of bilinear": of(
        gradient(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
        ((2, 64, 64, 64), (2, 64, 32, 32))),
    "gradient of conv2d": of(gradient(lambda x, w: F.conv2d(x, w, padding=1)),
                             ((8, 64, 28, 28), (8, 64, 28, 28), (64, 64, 3, 3))),
    "gradient of a conv2d's weight": of(
        gradient(lambda x, w: F.conv2d(x, w, padding=1), 1),
        ((8, 64, 28, 28), (8, 64, 28, 28), (64, 64, 3, 3))),
    # products
    "matmul odd": of(torch.matmul, ((333, 517), (517, 219)),
                     ((1000, 1000), Weight((1000, 1000)))),
    "matmul thin": of(torch.matmul, ((4096, 64), (64, 4096)), ((16, 4096), (4096, 1024))),
    "matmul of a transposed": of(lambda x, y: x @ y.t(), ((1024, 1024), (1024, 1024))),
    "linear with bias": of(F.linear, ((4096, 384), (1536, 384), (1536,)),
                           ((1, 4096), (14336, 4096), (14336,))),
    "bmm small": of(torch.bmm, ((64, 33, 65), (64, 65, 17)), ((96, 128, 64), (96, 64, 128))),
    "batched by one": of(torch.matmul, ((32, 128, 384), (384, 384))),
    "einsum of heads": of(lambda x, y: torch.einsum("bhid,bhjd->bhij", x, y),
                          ((4, 12, 128, 64), (4, 12, 128, 64))),
    "outer": of(lambda x, y: x.unsqueeze(1) * y.unsqueeze(0), ((2048,), (2048,))),
    # attention
    "attention": of(_attention, ((8, 12, 128, 64),) * 3, ((1, 32, 512, 128),) * 3,
                    ((2, 8, 197, 64),) * 3),
    "causal attention": of(_causal, ((2, 16, 512, 64),) * 3),
    "masked attention": of(_masked, (*((8, 12, 128, 64),) * 3, (8, 1, 128, 128))),
    "grouped attention": of(_grouped, ((1, 32, 256, 64), (1, 8, 256, 64), (1, 8, 256, 64))),
    "attention of one query": of(
        _attention, ((4, 16, 1, 64), (4, 16, 1024, 64), (4, 16, 1024, 64))),
    "attention 80 wide": of(_attention, ((2, 8, 256, 80),) * 3),
    # casts
    "to float32": one(lambda x: x.float() + 1, (2048, 2048)),
    "through float32": one(lambda x: (x.float() * 2).to(x.dtype), (2048, 2048)),
    "bool to float": of(lambda m, x: m.to(x.dtype) * x, (Mask((2048, 2048)), (2048, 2048))),
}  # fmt: skip


def operands(variant: tuple, generator: torch.Generator) -> list[torch.Tensor]:
    """The operands of a variant on the CPU; floating ones in float32."""

    def made(spec) -> torch.Tensor:
        match spec:
            case Index(distinct=True):
                values = torch.randperm(spec.bound, generator=generator)
                return values[: math.prod(spec.shape)].reshape(spec.shape)
            case Index():
                return torch.randint(spec.bound, spec.shape, generator=generator)
            case Mask():
                return torch.randint(2, spec.shape, generator=generator).bool()
            case _:
                shape = _shape(spec)
                return torch.randn(shape, generator=generator) / shape[-1] ** 0.25

    return [made(spec) for spec in variant]


def grown(variant: tuple, factor: int) -> tuple:
    """The variant with `factor` times the batch: the first size of the first operand, and of every
    operand of that many rows. Weights stay, those of one dimension among them."""

    def grow(spec):
        shape = _shape(spec)
        is_line = len(shape) == 1 and len(first) > 1 and not dataclasses.is_dataclass(spec)
        if isinstance(spec, Weight) or is_line or not shape or shape[0] != first[0]:
            return spec
        shape = (shape[0] * factor, *shape[1:])
        return dataclasses.replace(spec, shape=shape) if dataclasses.is_dataclass(spec) else shape

    first = _shape(variant[0])
    return tuple(grow(spec) for spec in variant)


def label(name: str, variant: tuple) -> str:
    """`softmax 64x1000`: the pattern and its first operand."""
    return f"{name} {'x'.join(map(str, _shape(variant[0])))}"


def _shape(spec) -> Shape:
    return spec.shape if dataclasses.is_dataclass(spec) else spec
