# SPDX-License-Identifier: Apache-2.0
"""The device itself: `torch.spyre`, streams, layouts, automatic dtypes."""
