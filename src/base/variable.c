// SPDX-License-Identifier: Apache-2.0
#include "base/variable.h"

#include <stddef.h>
#include <stdlib.h>

const char *variable_text(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}
