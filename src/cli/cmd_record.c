// SPDX-License-Identifier: Apache-2.0
//
// Runs a command whose runtime saves one launch (src/runtime/recorder.h).
#include <errno.h>
#include <limits.h>
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

// The command writes beside `path`, which it replaces when there is a record; a recording that
// fails leaves what was there.
typedef struct {
    char record[PATH_MAX], count[PATH_MAX];
} side_files;

static bool name_side_files(const char *path, side_files *out)
{
    int one = snprintf(out->record, sizeof out->record, "%s.%ld.record", path, (long)getpid());
    int two = snprintf(out->count, sizeof out->count, "%s.%ld.count", path, (long)getpid());
    return one > 0 && two > 0 && (size_t)one < sizeof out->record &&
           (size_t)two < sizeof out->count;
}

static long read_count(const char *path)
{
    long count = 0;
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%ld", &count) != 1) count = 0;
    fclose(file);
    return count;
}

static int record(const side_files *side, const char *path, const char *launch, char **command)
{
    setenv("SPYRE_RECORD", side->record, 1);
    setenv("SPYRE_RECORD_COUNT", side->count, 1);
    setenv("SPYRE_RECORD_LAUNCH", launch, 1);
    int code = run(command);
    long count = read_count(side->count);
    remove(side->count);
    if (access(side->record, F_OK) != 0) {
        if (code != CLI_OK) return code;
        fprintf(stderr, "spyre record: the command made no launch %s: it made %ld\n", launch,
                count);
        return CLI_FAILED;
    }
    if (rename(side->record, path) == 0) return code;
    int reason = errno;
    remove(side->record);
    return cli_complain("record", "%s: %s", path, strerror(reason));
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
    side_files side;
    if (!name_side_files(path, &side))
        return cli_complain("record", "%s: %s", path, strerror(ENAMETOOLONG));
    return record(&side, path, launch, in.items + in.at + 1);
}
