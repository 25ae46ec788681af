# SPDX-License-Identifier: Apache-2.0
"""What users say about tiles and the division over cores."""
