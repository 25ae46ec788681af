# SPDX-License-Identifier: Apache-2.0
"""The Dynamo backends and the functions around their warm-up."""

from torch_spyre.sendnn.api import *  # noqa: F403
