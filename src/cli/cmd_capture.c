// SPDX-License-Identifier: Apache-2.0
//
// Hands over to Python, where programs run: python3 -m torch_spyre.debug.capture. In a virtual
// environment that is the interpreter beside this command, whether the environment is active or
// not.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static void find_python(char path[PATH_MAX])
{
    static const char name[] = "python3";
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - sizeof name);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    strcpy(slash ? slash + 1 : path, name);
    if (access(path, X_OK) != 0) strcpy(path, name);
}

int cmd_capture(int count, char **arguments)
{
    static char path[PATH_MAX], option[] = "-m", module[] = "torch_spyre.debug.capture";
    if (count == 0) return cli_complain("capture", "a script is missing");
    char **command = calloc((size_t)count + 4, sizeof *command);
    if (!command) return cli_complain("capture", "out of host memory");
    find_python(path);
    command[0] = path;
    command[1] = option;
    command[2] = module;
    memcpy(command + 3, arguments, (size_t)count * sizeof *command);
    execvp(path, command);
    fprintf(stderr, "spyre capture: %s: %s\n", path, strerror(errno));
    free(command);
    return CLI_FAILED;
}
