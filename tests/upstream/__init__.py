# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own device-generic tests on the device.

run.py runs the files that the configurations (configs/*.yaml, torch-spyre's format) name of a
PyTorch checkout, `PYTORCH_ROOT`; plugin.py is what makes pytest follow a configuration.
"""
