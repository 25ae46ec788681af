// SPDX-License-Identifier: Apache-2.0
#include "ktir/ir/contraction.h"

#include <string.h>

static const struct {
    ktir_opcode opcode;
    const char *letters[3];
} rows[] = {
#define KTIR_CONTRACTION(id, a, b, result) {KTIR_OP_##id, {a, b, result}},
#include "ktir/ir/contraction.def"
#undef KTIR_CONTRACTION
};

ktir_contraction ktir_contraction_of(ktir_opcode opcode)
{
    ktir_contraction c = {{0}, {{KTIR_AXIS_B}}};
    static const char axes[] = "bmnk";
    uint32_t row = 0;
    while (rows[row].opcode != opcode) row++;
    for (uint32_t n = 0; n < 3; n++) {
        c.rank[n] = (uint32_t)strlen(rows[row].letters[n]);
        for (uint32_t d = 0; d < c.rank[n]; d++)
            c.axis[n][d] = (ktir_axis)(strchr(axes, rows[row].letters[n][d]) - axes);
    }
    return c;
}
