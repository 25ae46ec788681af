# SPDX-License-Identifier: Apache-2.0
"""Names and sizes that other packages import from here."""

DEVICE_NAME = "spyre"
DISTRIBUTED_BACKEND_NAME = "spyreccl"
BYTES_IN_STICK = 128
SEGMENT_BYTES = 0x400000000
SEGMENT_OFFSETS = [index * SEGMENT_BYTES for index in range(8)]
