// SPDX-License-Identifier: Apache-2.0
//
// Hands over to Python, where programs run: python3 -m torch_spyre.capture.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

int cmd_capture(int count, char **arguments)
{
    static char python[] = "python3", option[] = "-m", module[] = "torch_spyre.capture";
    if (count == 0) return cli_complain("capture", "a script is missing");
    char **command = calloc((size_t)count + 4, sizeof *command);
    if (!command) return cli_complain("capture", "out of host memory");
    command[0] = python;
    command[1] = option;
    command[2] = module;
    memcpy(command + 3, arguments, (size_t)count * sizeof *command);
    execvp(python, command);
    fprintf(stderr, "spyre capture: %s: %s\n", python, strerror(errno));
    free(command);
    return CLI_FAILED;
}
