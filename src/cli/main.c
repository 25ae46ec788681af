// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "held_log.h"
#include "spyre/version.h"

typedef struct {
    const char *name, *arguments, *summary, *options;
    cli_command *run;
} command_row;

static const command_row commands[] = {
#define CMD_ROW(name, arguments, summary, options) \
    {#name, arguments, summary, options, cmd_##name},
#include "cmd.def"
#undef CMD_ROW
};

enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static int print_help(void)
{
    puts("usage: spyre COMMAND [arguments]\n\n"
         "Compiler, back-end and emulated card for IBM Spyre.\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        printf("  %-9s %s\n", commands[i].name, commands[i].summary);
    puts("\nspyre COMMAND --help tells more; spyre --version prints the version.\n"
         "exit code: 0 done, 2 an argument or a file is wrong, 1 anything else");
    return cli_print("--help", "");
}

static int print_command_help(const command_row *row)
{
    printf("usage: spyre %s%s%s\n\n%s\n", row->name, *row->arguments ? " " : "", row->arguments,
           row->summary);
    if (*row->options) putchar('\n');
    for (const char *line = row->options; *line;) {
        int length = (int)strcspn(line, "\n");
        printf("  %.*s\n", length, line);
        line += length + 1;
    }
    return cli_print(row->name, "");
}

static bool asks_for_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

static int run_command(const command_row *row, int count, char **arguments)
{
    for (int i = 0; i < count; i++)
        if (asks_for_help(arguments[i])) return print_command_help(row);
    held_log_begin();
    int code = row->run(count, arguments);
    held_log_end(code);
    return code;
}

// Commands that torch-spyre's programs know by a name of their own.
static const struct {
    const char *name;
    cli_command *run;
} names[] = {{"dxp_standalone", cmd_dxp}, {"aiu-smi", cmd_smi}};

static bool is_called(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, name) == 0;
}

int main(int count, char **arguments)
{
    for (size_t n = 0; count > 0 && n < sizeof names / sizeof *names; n++)
        for (int i = 0; i < COMMAND_COUNT; i++)
            if (commands[i].run == names[n].run && is_called(arguments[0], names[n].name))
                return run_command(&commands[i], count - 1, arguments + 1);
    if (count < 2) {
        fputs("spyre: a command is missing (see spyre --help)\n", stderr);
        return CLI_BAD_INPUT;
    }
    const char *name = arguments[1];
    if (asks_for_help(name)) return print_help();
    if (strcmp(name, "--version") == 0) return cli_print(name, "spyre " SPYRE_VERSION "\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return run_command(&commands[i], count - 2, arguments + 2);
    fprintf(stderr, "spyre: no command is named '%.200s' (see spyre --help)\n", name);
    return CLI_BAD_INPUT;
}
