# SPDX-License-Identifier: Apache-2.0
"""All families of the net, by name."""

from __future__ import annotations

import media_families
import text_families
from family import Family

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        *text_families.ENCODERS,
        *text_families.DECODERS,
        *text_families.PAIRS,
        *media_families.VISION,
        *media_families.AUDIO,
        *media_families.MULTIMODAL,
    )
}
