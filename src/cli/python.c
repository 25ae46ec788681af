// SPDX-License-Identifier: Apache-2.0
#include "python.h"

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

int cli_become_python(const char *command, char *first, char *second, int count, char **arguments)
{
    static char path[PATH_MAX];
    char **line = calloc((size_t)count + 4, sizeof *line);
    if (!line) return cli_complain(command, "out of host memory");
    find_python(path);
    line[0] = path;
    line[1] = first;
    line[2] = second;
    memcpy(line + 3, arguments, (size_t)count * sizeof *line);
    execvp(path, line);
    fprintf(stderr, "spyre %s: %s: %s\n", command, path, strerror(errno));
    free(line);
    return CLI_FAILED;
}
