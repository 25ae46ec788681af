# SPDX-License-Identifier: Apache-2.0
"""torch.compile for the device: from the graphs of Dynamo to programs of the card."""
