// SPDX-License-Identifier: Apache-2.0
#include "bundle/mlir_error.h"

#include <stdarg.h>

spyre_status mlir_error(const token *at, spyre_code code, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    spyre_status status = status_vnew(code, format, values);
    va_end(values);
    return status_at(status, "bundle.mlir:%u:%u", at->line, at->column);
}

spyre_status mlir_unknown_operation(const token *at)
{
    return mlir_error(at, SPYRE_UNSUPPORTED, "operation %.*s is not supported", token_shown(at),
                      at->start);
}
