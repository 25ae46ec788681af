# SPDX-License-Identifier: Apache-2.0
"""PyTorch's modules of settings: attributes that `patch` changes for a while."""

from torch.utils._config_module import Config, install_config_module

__all__ = ["Config", "install_config_module"]
