// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "cli.h"
#include "spyre/device.h"

int cmd_card(int count, char **arguments)
{
    cli_arguments in = {.command = "card", .count = count, .items = arguments};
    const spyre_card_constant *constant;
    if (count) return cli_unexpected(&in);
    for (uint32_t i = 0; (constant = spyre_card_constant_at(i)); i++)
        printf("%-18s %14.13g  %-42s %s\n", constant->name, constant->value, constant->unit,
               constant->source);
    return cli_print("card", "");
}
