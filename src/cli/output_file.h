// SPDX-License-Identifier: Apache-2.0
//
// A file that a command writes: others see the old content or the new, never a part. What is
// written goes to a temporary file beside it, which takes its place, and its access rights, at the
// end; a write that fails leaves the old file as it was. A pipe, a device, or a file in a folder
// that takes no new one is written in place.
#ifndef CLI_OUTPUT_FILE_H
#define CLI_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct {
    FILE *stream;
    char *target, *temporary;   // temporary is null when target is written in place
} output_file;

// False with errno; nothing is to be closed then. The path of a link is that of its file.
bool output_file_open(const char *path, output_file *out_file);

// Ends the writing; with `good` the file is replaced. False with errno, of the writing where `good`
// is false.
bool output_file_close(output_file *file, bool good);

#endif
