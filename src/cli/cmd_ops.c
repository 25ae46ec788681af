// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "cli.h"
#include "spyre/opfunc.h"

static void print_dtypes(uint32_t index)
{
    static const spyre_dtype dtypes[] = {SPYRE_DTYPE_F16, SPYRE_DTYPE_BF16, SPYRE_DTYPE_F32,
                                         SPYRE_DTYPE_I64, SPYRE_DTYPE_BOOL, SPYRE_DTYPE_F8_E4M3,
                                         SPYRE_DTYPE_I8};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (!spyre_opfunc_takes(index, dtypes[i], true)) continue;
        bool is_extended = !spyre_opfunc_takes(index, dtypes[i], false);
        printf(" %s%s", spyre_dtype_name(dtypes[i]), is_extended ? " (extended)" : "");
    }
}

int cmd_ops(int count, char **arguments)
{
    cli_arguments in = {.command = "ops", .count = count, .items = arguments};
    spyre_opfunc_info row;
    if (count) return cli_unexpected(&in);
    for (uint32_t i = 0; spyre_opfunc_at(i, &row); i++) {
        printf("%-22s %-10s %s", row.name, spyre_opfunc_class_name(row.class_of), row.kind);
        for (uint32_t p = 0; p < SPYRE_OPFUNC_PARAMETERS && row.parameters[p]; p++)
            printf(" {%s}", row.parameters[p]);
        print_dtypes(i);
        if (row.meaning) printf(": %s", row.meaning);
        putchar('\n');
    }
    return cli_print("ops", "");
}
