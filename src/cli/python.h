// SPDX-License-Identifier: Apache-2.0
//
// Commands that are programs of Python.
#ifndef CLI_PYTHON_H
#define CLI_PYTHON_H

// Replaces the process by python3 with two options and the command's arguments. In a virtual
// environment that is the interpreter beside this command, whether the environment is active or
// not. Returns only when it fails: an exit code, after the line that says why.
int cli_become_python(const char *command, char *first, char *second, int count, char **arguments);

#endif
