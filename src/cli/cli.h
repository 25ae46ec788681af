// SPDX-License-Identifier: Apache-2.0
//
// The command line `spyre`. A command gets the arguments behind its name and returns the exit code.
// It writes its result to stdout, and on an error one line to stderr and nothing else.
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "spyre/status.h"

enum {
    CLI_OK = 0,
    CLI_FAILED = 1,         // memory, a fault of this stack or of the emulated card
    CLI_BAD_INPUT = 2,      // an argument or a file is wrong
};

typedef int cli_command(int count, char **arguments);
#define CMD_ROW(name, arguments, summary, options) cli_command cmd_##name;
#include "cmd.def"
#undef CMD_ROW

// Walks through the arguments of a command.
typedef struct {
    const char *command;    // "smi", or with the place of the arguments: "smi: AIUSMI_OPTS"
    int count;
    char **items;
    int at;
    bool failed;            // an option had no value; reported already
} cli_arguments;

// When the argument at hand is the option `name` ("--dump"), moves past it.
bool cli_flag(cli_arguments *in, const char *name);

// The same for an option with a value: "-o DIR", "--dump DIR" or "--dump=DIR". False with `failed`
// set when the value is missing.
bool cli_option(cli_arguments *in, const char *name, const char **out_value);

// The value of the option `name` as a positive integer; the exit code.
int cli_read_count(const char *command, const char *name, const char *value, uint32_t *out);

// Prints "spyre <command>: <message>"; returns CLI_BAD_INPUT.
int cli_complain(const char *command, const char *format, ...) SPYRE_PRINTF(2, 3);

// Complains about the argument at hand, which no option took.
int cli_unexpected(const cli_arguments *in);

// Prints the message of an error, frees it, and returns the exit code for its kind.
int cli_report(const char *command, spyre_status status);

// Writes a whole string to stdout; CLI_FAILED when it cannot be written.
int cli_print(const char *command, const char *string);

#endif
