# SPDX-License-Identifier: Apache-2.0
"""Names and sizes that other packages import from here."""

DEVICE_NAME = "spyre"
DISTRIBUTED_BACKEND_NAME = "spyreccl"
BYTES_IN_STICK = 128
SEGMENT_BYTES = 0x400000000
SEGMENT_OFFSETS = [index * SEGMENT_BYTES for index in range(8)]

# Largest finite numbers. DL16: 1 sign, 6 exponent, 9 fraction bits, the last code is no number
# (docs/tensor.md).
DLFLOAT16_MAX = (2.0 - 2.0**-8) * 2.0**32
FP8_E4M3FN_MAX = 448.0
FP8_E4M3FN_MIN = -448.0
FP8_E4M3_MAX = FP8_E4M3FN_MAX
# The least scale that quantscalepertokenfp8 gives: torch-spyre/torch-spyre,
# `torch_spyre/_inductor/constants.py`.
QUANTSCALEPERTOKENFP8_CLIP_MIN = 2.0**-23

# Opfuncs that torch-spyre's passes and tests name.
BATCH_MATMUL_OP = "batchmatmul"
BATCH_MATMUL_FP8_OP = "batchmatmulfp8"
IDENTITY_OP = "identity"
RESTICKIFY_OP = "ReStickifyOpHBM"
DL16TOFP32_OP = "dl16tofp32"
FP32TODL16_OP = "fp32todl16"
FP8TODL16_OP = "fp8todl16"
