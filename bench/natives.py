# SPDX-License-Identifier: Apache-2.0
"""Operators beyond the patterns of patterns.py, a row each: integers and bools, functions of one
element, orders, indices, windows, losses, recurrent cells, and gradients of them. Sizes take
PyTorch a tenth of a millisecond to some."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from patterns import Index, Mask, Pattern, Weight, gradient, of, one

_WIDE = (2048, 1024)
_INTS = Index(_WIDE, 1000)


def _signs(m: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """-1 and 1 in the dtype of x."""
    return m.to(x.dtype) * 2 - 1


def _conv(**how) -> Callable:
    return lambda x, w: F.conv2d(x, w, **how)


def _transposed(**how) -> Callable:
    return lambda x, w: F.conv_transpose2d(x, w, **how)


def _resized(**how) -> Callable:
    return lambda x: F.interpolate(x, scale_factor=2, **how)


def _padded(mode: str) -> Callable:
    return lambda x: F.pad(x, (2, 2, 2, 2), mode=mode)


def _bags(mode: str) -> Callable:
    """Of 16 indices each."""
    return lambda i, w: F.embedding_bag(i, w, mode=mode)


def _lstm(x, h, c, a, b, p, q):
    return torch.ops.aten.lstm_cell(x, (h, c), a, b, p, q)[0]


def _sequence(x, h, a, b, p, q):
    """Eight steps of a recurrent cell."""
    for step in x.unbind(0):
        h = torch.ops.aten.gru_cell(step, h, a, b, p, q)
    return h


def _grid_sample(x, grid):
    return F.grid_sample(x, grid, align_corners=False)


def _put_pairs(x, i, y):
    """At indices of the first two dims together."""
    return x.index_put((i // x.shape[1], i % x.shape[1]), y)


NATIVES: dict[str, Pattern] = {
    # integers and bools
    "integer add": of(torch.add, (_INTS, _INTS)),
    "integer multiply": of(torch.mul, (_INTS, _INTS)),
    "integer floor division": of(lambda x, y: x // (y + 1), (_INTS, _INTS)),
    "integer remainder": of(lambda x: x % 7, (_INTS,)),
    "integer and": of(torch.bitwise_and, (_INTS, _INTS)),
    "integer shift": of(lambda x: x << 3, (_INTS,)),
    "integer comparison": of(torch.lt, (_INTS, _INTS)),
    "integer maximum": of(torch.maximum, (_INTS, _INTS)),
    "integer where": of(torch.where, (Mask(_WIDE), _INTS, _INTS)),
    "integer sum": of(lambda x: x.sum(-1), (_INTS,)),
    "integer sum of everything": of(lambda x: x.sum(), (_INTS,)),
    "integer max": of(lambda x: x.amax(-1), (_INTS,)),
    "integer cumsum": of(lambda x: x.cumsum(-1), (_INTS,)),
    "integer to float": of(lambda i, x: x * i.to(x.dtype), (_INTS, _WIDE)),
    "logical and": of(lambda m, n: m & ~n, (Mask(_WIDE), Mask(_WIDE))),
    "logical xor": of(torch.logical_xor, (Mask(_WIDE), Mask(_WIDE))),
    "count of a mask": of(lambda m: m.sum(-1), (Mask(_WIDE),)),
    "all of columns": of(lambda m: m.all(0), (Mask(_WIDE),)),
    # functions of one element
    "expm1": one(torch.expm1, _WIDE),
    "exp2": one(torch.exp2, _WIDE),
    "log1p": one(lambda x: x.abs().log1p(), _WIDE),
    "log2": one(lambda x: x.abs().add(0.1).log2(), _WIDE),
    "log10": one(lambda x: x.abs().add(0.1).log10(), _WIDE),
    "tan": one(torch.tan, _WIDE),
    "atan": one(torch.atan, _WIDE),
    "asin": one(lambda x: x.clamp(-1, 1).asin(), _WIDE),
    "sinh": one(torch.sinh, _WIDE),
    "asinh": one(torch.asinh, _WIDE),
    "atanh": one(lambda x: x.clamp(-0.9, 0.9).atanh(), _WIDE),
    "erfinv": one(lambda x: x.clamp(-0.9, 0.9).erfinv(), _WIDE),
    "lgamma": one(lambda x: x.abs().add(0.1).lgamma(), (1024, 512)),
    "digamma": one(lambda x: x.abs().add(0.1).digamma(), (1024, 512)),
    "atan2": of(torch.atan2, (_WIDE, _WIDE)),
    "fmod": of(lambda x, y: x.fmod(y.abs() + 0.1), (_WIDE, _WIDE)),
    "floor division": of(lambda x, y: x // (y.abs() + 0.1), (_WIDE, _WIDE)),
    "logaddexp": of(torch.logaddexp, (_WIDE, _WIDE)),
    "xlogy": of(lambda x, y: torch.xlogy(x, y.abs() + 0.1), (_WIDE, _WIDE)),
    "copysign": of(torch.copysign, (_WIDE, _WIDE)),
    "sign": one(torch.sign, (2048, 2048)),
    "ceil": one(torch.ceil, (2048, 2048)),
    "frac": one(torch.frac, (2048, 2048)),
    "nan_to_num": one(torch.nan_to_num, (2048, 2048)),
    "lerp": of(lambda x, y: torch.lerp(x, y, 0.3), (_WIDE, _WIDE)),
    "addcmul": of(lambda x, y, z: torch.addcmul(x, y, z, value=0.5), (_WIDE, _WIDE, _WIDE)),
    "prelu": of(F.prelu, ((4096, 512), (512,))),
    "glu": one(lambda x: F.glu(x, -1), (2048, 2048)),
    "logsigmoid": one(F.logsigmoid, _WIDE),
    "selu": one(F.selu, _WIDE),
    "softshrink": one(F.softshrink, (2048, 2048)),
    "tanhshrink": one(F.tanhshrink, (2048, 2048)),
    # orders
    "argsort": one(lambda x: x.gather(-1, x.argsort(-1)), (512, 1024)),
    "sort of dim 0": one(lambda x: x.sort(0).values, (1024, 256)),
    "topk 100": one(lambda x: x.topk(100, -1).values, (256, 4096)),
    "kthvalue": one(lambda x: x.kthvalue(20, -1).values, (256, 1024)),
    "median": one(lambda x: x.median(-1).values, (512, 1024)),
    "mode": of(lambda x: x.mode(-1).values, (Index((256, 1024), 50),)),
    "argmin of columns": one(lambda x: x.argmin(0), (1024, 1024)),
    "cummin": one(lambda x: x.cummin(-1).values, (1024, 512)),
    "nansum": one(lambda x: x.nansum(-1), _WIDE),
    "nanmean": one(lambda x: x.nanmean(-1), _WIDE),
    "prod": one(lambda x: (x * 0.01 + 1).prod(-1), _WIDE),
    "searchsorted": of(lambda x, y: torch.searchsorted(x.sort().values, y), ((128,), (256, 128))),
    # made of no operand, and moved
    "arange and add": one(lambda x: x + torch.arange(1024, device=x.device).to(x.dtype), _WIDE),
    "eye and add": one(
        lambda x: x + torch.eye(len(x), 1024, device=x.device, dtype=x.dtype), (1024, 1024)),
    "linspace and add": one(
        lambda x: x + torch.linspace(0, 1, 1024, device=x.device, dtype=x.dtype), _WIDE),
    "diagonal and add": one(lambda x: x + x.diagonal(), (1024, 1024)),
    "pad by reflection": one(_padded("reflect"), (8, 64, 56, 56)),
    "pad by replication": one(_padded("replicate"), (8, 64, 56, 56)),
    "pad by wrapping": one(_padded("circular"), (8, 64, 56, 56)),
    "pixel_shuffle": one(lambda x: F.pixel_shuffle(x, 2), (8, 64, 56, 56)),
    "unfold": one(lambda x: F.unfold(x, 3, padding=1), (4, 32, 28, 28)),
    "fold": one(lambda x: F.fold(x, (28, 28), 3, padding=1), (4, 288, 784)),
    # indices
    "scatter": of(lambda x, i, y: x.scatter(1, i, y),
                  ((1024, 1024), Index((1024, 64), 1024), (1024, 64))),
    "scatter of a number": of(lambda x, i: x.scatter(1, i, 1.0),
                              ((1024, 1024), Index((1024, 64), 1024))),
    "scatter_reduce mean": of(lambda x, i, y: x.scatter_reduce(1, i, y, "mean"),
                              ((1024, 1024), Index((1024, 64), 1024), (1024, 64))),
    "scatter_reduce prod": of(lambda x, i, y: x.scatter_reduce(1, i, y * 0.1 + 1, "prod"),
                              ((1024, 1024), Index((1024, 64), 1024), (1024, 64))),
    "scatter_add of dim 0": of(lambda x, i, y: x.scatter_add(0, i, y),
                               ((1024, 512), Index((256, 512), 1024), (256, 512))),
    "index_put": of(lambda x, i, y: x.index_put((i,), y),
                    ((4096, 512), Index((1024,), 4096, distinct=True), (1024, 512))),
    "index_put of pairs": of(
        _put_pairs, ((64, 64, 256), Index((1024,), 4096, distinct=True), (1024, 256))),
    "index_put of elements": of(
        _put_pairs, ((1024, 512), Index((65536,), 1 << 19, distinct=True), (65536,))),
    "index_put accumulated": of(lambda x, i, y: x.index_put((i,), y, accumulate=True),
                                ((4096, 512), Index((2048,), 4096), (2048, 512))),
    "index_copy of columns": of(lambda x, i, y: x.index_copy(1, i, y),
                                ((2048, 1024), Index((128,), 1024, distinct=True), (2048, 128))),
    "index_fill": of(lambda x, i: x.index_fill(0, i, 1.0), ((4096, 512), Index((1024,), 4096))),
    "index_reduce amax": of(lambda x, i, y: x.index_reduce(0, i, y, "amax"),
                            ((2048, 256), Index((1024,), 2048), (1024, 256))),
    "index of pairs": of(lambda x, i, j: x[i, j],
                         ((64, 64, 256), Index((4096,), 64), Index((4096,), 64))),
    "index of elements": of(lambda x, i, j: x[i, j],
                            ((1024, 512), Index((65536,), 1024), Index((65536,), 512))),
    "index_select of columns": of(lambda x, i: x.index_select(1, i),
                                  ((2048, 1024), Index((256,), 1024))),
    "masked_scatter": of(lambda x, m, y: x.masked_scatter(m, y),
                         ((256, 256), Mask((256, 256)), (256, 256))),
    "embedding_bag sum": of(_bags("sum"), (Index((512, 32), 8192), (8192, 256))),
    "embedding_bag mean": of(_bags("mean"), (Index((512, 32), 8192), (8192, 256))),
    "embedding_bag max": of(_bags("max"), (Index((64, 16), 8192), (8192, 128))),
    # losses with weights, smoothed labels, targets left out
    "cross_entropy smoothed": of(
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
        ((1024, 1000), Index((1024,), 1000))),
    "cross_entropy weighted": of(
        lambda x, y, w: F.cross_entropy(x, y, w.abs() + 0.1, ignore_index=3),
        ((1024, 1000), Index((1024,), 1000), (1000,))),
    "cross_entropy of images": of(F.cross_entropy, ((4, 21, 64, 64), Index((4, 64, 64), 21))),
    "binary_cross_entropy": of(lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
                               ((1024, 512), (1024, 512))),
    "gaussian_nll_loss": of(lambda x, y, v: F.gaussian_nll_loss(x, y, v.abs() + 0.1),
                            ((1024, 512),) * 3),
    "hinge_embedding_loss": of(lambda x, m: F.hinge_embedding_loss(x, _signs(m, x)),
                               ((2048, 512), Mask((2048, 512)))),
    "margin_ranking_loss": of(
        lambda x, y, m: F.margin_ranking_loss(x, y, _signs(m, x), margin=0.5),
        ((2048, 512), (2048, 512), Mask((2048, 512)))),
    "soft_margin_loss": of(lambda x, m: F.soft_margin_loss(x, _signs(m, x)),
                           ((2048, 512), Mask((2048, 512)))),
    "multilabel_soft_margin_loss": of(
        lambda x, m: F.multilabel_soft_margin_loss(x, m.to(x.dtype)),
        ((1024, 512), Mask((1024, 512)))),
    "cosine_embedding_loss": of(
        lambda x, y, m: F.cosine_embedding_loss(x, y, _signs(m, x)),
        ((2048, 512), (2048, 512), Mask((2048,)))),
    # recurrent cells
    "lstm_cell": of(_lstm, ((128, 256), (128, 256), (128, 256), (1024, 256), (1024, 256),
                            (1024,), (1024,))),
    "gru_cell": of(torch.ops.aten.gru_cell, ((128, 256), (128, 256), (768, 256), (768, 256),
                                             (768,), (768,))),
    "rnn_tanh_cell": of(torch.ops.aten.rnn_tanh_cell,
                        ((256, 256), (256, 256), Weight((256, 256)), Weight((256, 256)),
                         (256,), (256,))),
    "eight steps of a gru_cell": of(_sequence, ((8, 64, 128), (64, 128), (384, 128), (384, 128),
                                                (384,), (384,))),
    # products
    "einsum of three": of(lambda x, w, y: torch.einsum("bi,oij,bj->bo", x, w, y),
                          ((64, 64), (64, 64, 64), (64, 64))),
    "einsum of diagonals": of(lambda x, y: torch.einsum("bii,bij->bj", x, y),
                              ((64, 128, 128), (64, 128, 128))),
    "einsum by batch": of(lambda x, y: torch.einsum("bhqk,bkhd->bqhd", x, y),
                          ((4, 8, 128, 128), (4, 128, 8, 64))),
    # windows
    "grouped conv2d": of(_conv(padding=1, groups=4), ((4, 128, 28, 28), (128, 32, 3, 3))),
    "conv2d of groups of 4": of(_conv(padding=1, groups=32), ((4, 128, 56, 56), (128, 4, 3, 3))),
    "matmul of shared heads": of(torch.matmul, ((8, 16, 128, 64), (16, 64, 64))),
    "conv2d of small groups": of(_conv(padding=1, groups=32), ((4, 128, 56, 56), (128, 4, 3, 3))),
    "dilated conv2d": of(_conv(padding=2, dilation=2), ((4, 64, 28, 28), (64, 64, 3, 3))),
    "conv2d of few channels": of(_conv(padding=1), ((8, 3, 64, 64), (16, 3, 3, 3)),
                                 ((8, 4, 128, 128), (4, 4, 3, 3))),
    "conv2d of few channels strided": of(_conv(padding=1, stride=2),
                                         ((8, 3, 224, 224), (32, 3, 3, 3))),
    "conv2d of many small images": of(F.conv2d, ((128, 6, 14, 14), (16, 6, 5, 5))),
    "conv2d to few features": of(_conv(padding=1), ((1, 320, 64, 64), (4, 320, 3, 3)),
                                 ((4, 64, 128, 128), (1, 64, 3, 3))),
    "conv2d of small patches": of(_conv(stride=4), ((8, 3, 224, 224), (96, 3, 4, 4))),
    "depthwise conv2d 1x1": of(_conv(groups=48), ((8, 48, 80, 80), (48, 1, 1, 1))),
    "depthwise conv2d 7x7": of(_conv(padding=3, groups=96), ((8, 96, 56, 56), (96, 1, 7, 7))),
    "depthwise conv2d of padded patches": of(_conv(stride=2, padding=1, groups=64),
                                             ((8, 64, 56, 56), (64, 1, 2, 2))),
    "conv_transpose1d": of(lambda x, w: F.conv_transpose1d(x, w, stride=2),
                           ((4, 64, 1000), (64, 32, 4))),
    "conv_transpose2d overlapping": of(_transposed(stride=2, padding=1),
                                       ((4, 64, 28, 28), (64, 32, 4, 4))),
    "conv_transpose3d": of(lambda x, w: F.conv_transpose3d(x, w, stride=2),
                           ((1, 16, 8, 16, 16), (16, 16, 2, 2, 2))),
    "conv1d grouped": of(lambda x, w: F.conv1d(x, w, padding=3, groups=256),
                         ((4, 256, 1024), (256, 1, 7))),
    "max_pool1d": one(lambda x: F.max_pool1d(x, 3, 2), (8, 128, 1024)),
    "adaptive_avg_pool2d 7": one(lambda x: F.adaptive_avg_pool2d(x, 7), (8, 128, 28, 28)),
    "interpolate trilinear": one(_resized(mode="trilinear"), (1, 16, 8, 32, 32)),
    "interpolate linear": one(_resized(mode="linear"), (8, 64, 1024)),
    "interpolate area": one(lambda x: F.interpolate(x, size=(14, 14), mode="area"),
                            (8, 64, 56, 56)),
    # gradients
    "gradient of silu": of(gradient(F.silu), (_WIDE, _WIDE)),
    "gradient of tanh": of(gradient(torch.tanh), (_WIDE, _WIDE)),
    "gradient of leaky_relu": of(gradient(F.leaky_relu), (_WIDE, _WIDE)),
    "gradient of log_softmax": of(gradient(lambda x: x.log_softmax(-1)),
                                  ((4096, 512), (4096, 512))),
    "gradient of gather": of(gradient(lambda x, i: x.gather(1, i)),
                             ((1024, 64), (1024, 1024), Index((1024, 64), 1024))),
    "gradient of index_select": of(gradient(lambda x, i: x.index_select(0, i)),
                                   ((2048, 256), (4096, 256), Index((2048,), 4096))),
    "gradient of cumsum": of(gradient(lambda x: x.cumsum(-1)), ((1024, 512), (1024, 512))),
    "gradient of amax": of(gradient(lambda x: x.amax(-1)), ((8192,), (8192, 64))),
    "gradient of prod": of(gradient(lambda x: (x * 0.1 + 1).prod(-1)), ((2048,), (2048, 128))),
    "gradient of conv1d": of(gradient(lambda x, w: F.conv1d(x, w, padding=1)),
                             ((4, 64, 1000), (4, 64, 1000), (64, 64, 3))),
    "gradient of a conv1d's weight": of(gradient(lambda x, w: F.conv1d(x, w, padding=1), 1),
                                        ((4, 64, 1000), (4, 64, 1000), (64, 64, 3))),
    "gradient of a conv2d's weight of 16 channels": of(
        gradient(lambda x, w: F.conv2d(x, w, padding=1), 1),
        ((8, 32, 56, 56), (8, 16, 56, 56), (32, 16, 3, 3))),
    "gradient of a conv3d's weight": of(
        gradient(lambda x, w: F.conv3d(x, w, padding=1), 1),
        ((2, 32, 8, 32, 32), (2, 16, 8, 32, 32), (32, 16, 3, 3, 3))),
    "gradient of conv_transpose2d": of(
        gradient(lambda x, w: F.conv_transpose2d(x, w, stride=2)),
        ((4, 32, 56, 56), (4, 64, 28, 28), (64, 32, 2, 2))),
    "gradient of depthwise conv2d": of(
        gradient(lambda x, w: F.conv2d(x, w, padding=1, groups=64)),
        ((4, 64, 28, 28), (4, 64, 28, 28), (64, 1, 3, 3))),
    "gradient of conv2d of few channels": of(
        gradient(lambda x, w: F.conv2d(x, w, padding=1)),
        ((4, 2, 256, 256), (4, 1, 256, 256), (2, 1, 3, 3))),
    "gradient of avg_pool2d": of(gradient(lambda x: F.avg_pool2d(x, 2)),
                                 ((8, 64, 28, 28), (8, 64, 56, 56))),
    "gradient of adaptive_avg_pool2d": of(gradient(lambda x: F.adaptive_avg_pool2d(x, 7)),
                                          ((8, 128, 7, 7), (8, 128, 28, 28))),
    "gradient of nearest": of(gradient(_resized()), ((2, 64, 64, 64), (2, 64, 32, 32))),
    "gradient of grid_sample": of(gradient(_grid_sample),
                                  ((1, 16, 32, 32), (1, 16, 32, 32), (1, 32, 32, 2))),
    "gradient of pad": of(gradient(_padded("reflect")), ((8, 64, 60, 60), (8, 64, 56, 56))),
    "gradient of bce with logits": of(
        gradient(lambda x, y: F.binary_cross_entropy_with_logits(
            x, y.sigmoid(), reduction="none")), ((1024, 512),) * 3),
    "gradient of kl_div": of(
        gradient(lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="none")),
        ((1024, 500),) * 3),
    "gradient of smooth_l1_loss": of(
        gradient(lambda x, y: F.smooth_l1_loss(x, y, reduction="none")), (_WIDE,) * 3),
    "gradient of embedding_bag": of(
        gradient(lambda w, i: F.embedding_bag(i, w, mode="sum")),
        ((256, 128), (2048, 128), Index((256, 16), 2048))),
    "gradient of lstm_cell": of(gradient(_lstm),
                                ((128, 128), (128, 128), (128, 128), (128, 128), (512, 128),
                                 (512, 128), (512,), (512,))),
    "gradient of attention": of(gradient(F.scaled_dot_product_attention), ((2, 8, 128, 64),) * 4),
}  # fmt: skip
