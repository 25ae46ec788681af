// SPDX-License-Identifier: Apache-2.0
//
// The command line: the first lines are its arguments, up to an empty one; files follow. It runs in
// a directory of its own; an argument that could leave it is not passed on.
#include <fcntl.h>

#include "fuzz/files.h"

enum { MOST_ARGUMENTS = 12 };

int spyre_main(int count, char **arguments);
#define main spyre_main
#include "cli/main.c"
#undef main

// Reports of a sanitizer still go to the descriptor of stderr.
static void silence(void)
{
    stderr = fopen("/dev/null", "w");
    int nowhere = open("/dev/null", O_WRONLY);
    FUZZ_HOLDS(nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0);
    close(nowhere);
}

// Nor one that asks for much memory (--size) or runs another program.
static bool is_harmless(const char *argument)
{
    enum { MOST_DIGITS = 6 };
    size_t digits = 0;
    for (const char *c = argument; *c; c++) {
        digits = *c >= '0' && *c <= '9' ? digits + 1 : 0;
        if (*c == '/' || digits > MOST_DIGITS) return false;
    }
    return !strstr(argument, "..") && strcmp(argument, "capture") != 0 &&
           strcmp(argument, "adopt") != 0 && strcmp(argument, "record") != 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static int home = -1;
    if (home < 0) {
        silence();
        home = open(".", O_RDONLY | O_DIRECTORY);
    }
    arena *memory = arena_create();
    char name[] = "spyre", *arguments[MOST_ARGUMENTS + 2] = {name};
    char *all = fuzz_string(memory, bytes, count), *rest = all;
    const char *directory = file_join(memory, fuzz_directory(), "cli");
    int given = 1;
    for (char *line; given <= MOST_ARGUMENTS && (line = strsep(&rest, "\n")) && *line;)
        if (is_harmless(line)) arguments[given++] = line;
    fuzz_must(file_make_directories(directory));
    size_t skip = rest ? (size_t)(rest - all) : count;
    fuzz_unpack(memory, directory, bytes + skip, count - skip);
    FUZZ_HOLDS(chdir(directory) == 0);
    int code = spyre_main(given, arguments);
    if (code < 0 || code > 2) abort();
    FUZZ_HOLDS(fchdir(home) == 0);
    fuzz_remove(memory, directory);
    arena_destroy(memory);
    return 0;
}
