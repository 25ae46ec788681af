# SPDX-License-Identifier: Apache-2.0
"""Loggers for passes."""

import logging

from .. import logging_config


def get_inductor_logger(name: str) -> logging.Logger:
    """The logger `spyre.inductor.<name>`, which TORCH_LOGS and set_log_level() reach."""
    return logging_config.get_logger(f"spyre.inductor.{name}")


def update_log_level(name: str, level: str) -> None:
    logging_config.set_log_level(f"spyre.inductor.{name}", level)


get_logger = get_inductor_logger
lowering_log = get_logger("lowering")
codegen_log = get_logger("codegen")
stickify_log = get_logger("stickify")
passes_log = get_logger("passes")
