// SPDX-License-Identifier: Apache-2.0
#include "front/front.h"

const char *front_stage_name(uint32_t stage)
{
    static const char *const names[] = {
        "build",
#define PASS_ROW(name, kind, needs, gives, summary) #name,
#include "front/pass.def"
#undef PASS_ROW
    };
    return names[stage];
}
