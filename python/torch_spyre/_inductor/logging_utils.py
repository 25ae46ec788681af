# SPDX-License-Identifier: Apache-2.0
"""Loggers for passes."""

import logging


def get_inductor_logger(name: str) -> logging.Logger:
    """The logger `spyre.inductor.<name>`, which TORCH_LOGS and set_log_level() reach."""
    return logging.getLogger(f"spyre.inductor.{name}")
