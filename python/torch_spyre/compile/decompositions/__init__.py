# SPDX-License-Identifier: Apache-2.0
"""Decompositions of the device where PyTorch has none, or none that the card can run: of sorting,
of writing at indices, of pooling, resampling and recurrent cells. They serve graphs and eager
operators alike; ../register_decomposition.py registers them."""

from ..register_decomposition import parts as PARTS
from . import (
    activation_gradients,
    activations,
    attention_gradient,
    class_losses,
    copies,
    distances,
    embedding_bags,
    grid_sample,
    grouped_products,
    histograms,
    host_operands,
    integer_decompositions,
    lists,
    loss_gradients,
    new_tensors,
    ordering,
    padding,
    pooling,
    recurrent,
    resampling,
    scattering,
    sums,
    weight_norm,
)
from .convolutions import unfolding
from .float32 import float32_functions, logarithms, powers

__all__ = [
    "PARTS",
    "activation_gradients",
    "activations",
    "attention_gradient",
    "class_losses",
    "copies",
    "distances",
    "embedding_bags",
    "float32_functions",
    "grid_sample",
    "grouped_products",
    "histograms",
    "host_operands",
    "integer_decompositions",
    "lists",
    "loss_gradients",
    "logarithms",
    "new_tensors",
    "ordering",
    "padding",
    "pooling",
    "powers",
    "recurrent",
    "resampling",
    "scattering",
    "sums",
    "unfolding",
    "weight_norm",
]
