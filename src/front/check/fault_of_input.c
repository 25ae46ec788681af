// SPDX-License-Identifier: Apache-2.0
#include "front/front.h"

spyre_status front_fault_of_input(spyre_status status)
{
    if (spyre_status_code(status) != SPYRE_INTERNAL) return status;
    spyre_status given = status_new(SPYRE_INVALID_FORMAT, "%s", spyre_status_message(status));
    spyre_status_free(status);
    return given;
}
