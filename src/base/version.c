// SPDX-License-Identifier: Apache-2.0
#include "spyre/version.h"

const char *spyre_version(void)
{
    return SPYRE_VERSION;
}
