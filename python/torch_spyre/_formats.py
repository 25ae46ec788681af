# SPDX-License-Identifier: Apache-2.0
"""The enumerations of the card's element formats; names and numbers come from the C table."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

import torch

from . import _C


class CardEnum(enum.IntEnum):
    """An enumeration of the card's, written as in Python code: `DataFormats.IEEE_FP32`."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __repr__(self) -> str:
        return f"<{self}: {self.value}>"


class _Format(CardEnum):
    def elems_per_stick(self) -> int:
        """Elements in one stick of 128 bytes; 0 where the format has no elements."""
        return _C._elements_per_stick(self.value)


# The functional form of an enumeration, which type checkers take for a member look-up. They know
# both from _C.pyi, where Python code finds them.
_make_formats: Any = _Format
_make_arrangements: Any = CardEnum
_ARRANGEMENTS = ("STANDARD", "DL16_TO_FP32", "QFP8CH", "EXX2", "FP32_TO_DL16", "QFP8WT")


def _numbered(names: Iterable[str]) -> list[tuple[str, int]]:
    return [(name, number) for number, name in enumerate(names)]


DataFormats: type[_C.DataFormats] = _make_formats("DataFormats", _numbered(_C._format_names()))
ElementArrangement: type[_C.ElementArrangement] = _make_arrangements(
    "ElementArrangement", _numbered(_ARRANGEMENTS)
)
DataFormats.__doc__ = "Element formats of the card: include/spyre/dtype.def."
ElementArrangement.__doc__ = "Orders of the elements within a stick; STANDARD is that of the host."
DataFormats.__module__ = ElementArrangement.__module__ = "torch_spyre._C"
_QUANTIZED = {  # of dtypes that no tensor of the card has
    torch.qint8: DataFormats.SENINT8,
    torch.quint8: DataFormats.SENUINT32,
    torch.quint4x2: DataFormats.SENUINT2,
    torch.quint2x4: DataFormats.SENUINT2,
}


def get_device_dtype(dtype: torch.dtype) -> _C.DataFormats:
    """The format `dtype` takes on the card; INVALID when it cannot go there."""
    return _QUANTIZED.get(dtype) or DataFormats(_C._device_dtype(dtype))


def get_elem_in_stick(dtype: torch.dtype) -> int:
    """Elements of this dtype in one stick of 128 bytes on the card."""
    return get_device_dtype(dtype).elems_per_stick()


def restore_layout(version: int, *state: Any) -> _C.SpyreTensorLayout:
    """Unpickles a SpyreTensorLayout: version 3, and 1 (with a dim_map) and 2 (no arrangement).

    Raises: ValueError for another version.
    """
    if version == 1:
        device_size, _dim_map, stride_map, number = state
        state = (device_size, stride_map, number, 0)
    elif version == 2:
        state = (*state, 0)
    elif version != 3:
        raise ValueError(f"SpyreTensorLayout: pickle version {version} is not in 1..3")
    device_size, stride_map, number, arrangement = state
    return _C.SpyreTensorLayout(
        device_size, stride_map, DataFormats(number), ElementArrangement(arrangement)
    )


_C._set_enums(DataFormats, ElementArrangement, restore_layout)
_C.get_device_dtype = get_device_dtype
_C.get_elem_in_stick = get_elem_in_stick
