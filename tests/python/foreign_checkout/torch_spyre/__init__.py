# SPDX-License-Identifier: Apache-2.0
"""A package of another project under the name torch_spyre, as small as one can be: it registers
the device in Python and takes everything else from `_C`, which it does not have."""

import types

import torch


def _autoload():
    device = types.ModuleType("spyre")
    device.is_available = lambda: True
    device.is_initialized = lambda: True
    device._is_in_bad_fork = lambda: False
    device.current_device = lambda: 0
    device.device_count = lambda: 1
    torch.utils.rename_privateuse1_backend("spyre")
    torch._register_device_module("spyre", device)
