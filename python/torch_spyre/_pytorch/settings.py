# SPDX-License-Identifier: Apache-2.0
"""PyTorch's modules of settings: attributes that `patch` changes for a while."""

from typing import TYPE_CHECKING

from torch.utils._config_module import Config, install_config_module

if TYPE_CHECKING:  # the functions that installing gives such a module
    from torch.utils._config_typing import get_config_copy as get_config_copy
    from torch.utils._config_typing import patch as patch

__all__ = ["Config", "install_config_module"]
