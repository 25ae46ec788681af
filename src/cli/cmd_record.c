// SPDX-License-Identifier: Apache-2.0
//
// Runs a command whose runtime saves one launch (src/runtime/recorder.h).
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

static int wait_for(pid_t child)
{
    int state;
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR) return CLI_FAILED;
    return WIFEXITED(state) ? WEXITSTATUS(state) : CLI_FAILED;
}

static int run(char **command)
{
    pid_t child = fork();
    if (child == 0) {
        execvp(command[0], command);
        fprintf(stderr, "spyre record: %s: %s\n", command[0], strerror(errno));
        _exit(CLI_BAD_INPUT);
    }
    return child < 0 ? CLI_FAILED : wait_for(child);
}

static bool is_number(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits < 10 && !text[digits];
}

int cmd_record(int count, char **arguments)
{
    cli_arguments in = {.command = "record", .count = count, .items = arguments};
    const char *path = NULL, *launch = "0";
    while (in.at < in.count && strcmp(in.items[in.at], "--") != 0) {
        if (cli_option(&in, "-o", &path) || cli_option(&in, "--launch", &launch)) continue;
        return in.failed ? CLI_BAD_INPUT : cli_unexpected(&in);
    }
    if (!path) return cli_complain("record", "-o with the file to write is missing");
    if (!is_number(launch))
        return cli_complain("record", "--launch '%s': expected a number below 10^9", launch);
    if (in.at + 1 >= in.count) return cli_complain("record", "-- and a command are missing");
    if (remove(path) != 0 && errno != ENOENT)
        return cli_complain("record", "%s: %s", path, strerror(errno));
    setenv("SPYRE_RECORD", path, 1);
    setenv("SPYRE_RECORD_LAUNCH", launch, 1);
    int code = run(in.items + in.at + 1);
    if (code != CLI_OK || access(path, F_OK) == 0) return code;
    fprintf(stderr, "spyre record: the command made no launch %s\n", launch);
    return CLI_FAILED;
}
