// SPDX-License-Identifier: Apache-2.0
//
// Errors of bundle.mlir: "bundle.mlir:LINE:COLUMN: ..".
#ifndef BUNDLE_MLIR_ERROR_H
#define BUNDLE_MLIR_ERROR_H

#include "base/status.h"
#include "mlir/lexer.h"

// An error at a token.
SPYRE_MUST_CHECK spyre_status mlir_error(const token *at, spyre_code code, const char *format, ...)
    SPYRE_PRINTF(3, 4);

// The token names an operation that bundles do not have.
SPYRE_MUST_CHECK spyre_status mlir_unknown_operation(const token *at);

#endif
