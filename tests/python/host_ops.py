# SPDX-License-Identifier: Apache-2.0
"""Two operators that run on the host, as the examples of such: a row of aten.def, with its reason,
and one that no table names, which PyTorch's CPU has in float16, too."""

import torch

HOST = "aten.special_airy_ai"
REASON = "the card has no Airy functions"
on_host = torch.special.airy_ai
UNKNOWN = "aten.nextafter"


def unknown(x):
    return torch.nextafter(x, x)
