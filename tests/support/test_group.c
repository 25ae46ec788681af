// SPDX-License-Identifier: Apache-2.0
//
// The tests of one module in one program, which runs the one that its argument names. A row
// TEST(name) of tests.def, which CMake writes, stands for a source whose main() is compiled as
// name().
#include <stdio.h>
#include <string.h>

#define TEST(name) int name(void);
#include "tests.def"
#undef TEST

static const struct {
    const char *name;
    int (*run)(void);
} tests[] = {
#define TEST(name) {#name, name},
#include "tests.def"
#undef TEST
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (argc == 2 && !strcmp(argv[1], tests[i].name)) return tests[i].run();
    }
    fprintf(stderr, "usage: %s TEST, where TEST is one of\n", argv[0]);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        fprintf(stderr, "    %s\n", tests[i].name);
    }
    return 2;
}
