# SPDX-License-Identifier: Apache-2.0
"""Decompositions of the device where PyTorch has none, or none that the card can run: of sorting,
of writing at indices, of pooling, resampling and recurrent cells. They serve graphs and eager
operators alike."""

from ..registered import parts as PARTS
from . import (
    attention_gradient,
    distances,
    embedding_bags,
    float32_functions,
    grouped_products,
    histograms,
    host_operands,
    integer_decompositions,
    lists,
    logarithms,
    ordering,
    padding,
    pooling,
    powers,
    recurrent,
    resampling,
    sampling,
    scattering,
    sums,
    unfolding,
    weight_norm,
)

__all__ = [
    "PARTS",
    "attention_gradient",
    "distances",
    "embedding_bags",
    "float32_functions",
    "grouped_products",
    "histograms",
    "host_operands",
    "integer_decompositions",
    "lists",
    "logarithms",
    "ordering",
    "padding",
    "pooling",
    "powers",
    "recurrent",
    "resampling",
    "sampling",
    "scattering",
    "sums",
    "unfolding",
    "weight_norm",
]
