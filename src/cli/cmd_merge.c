// SPDX-License-Identifier: Apache-2.0
//
// Traces are written by Python: python3 -m torch_spyre.profiler.merge.
#include "cli.h"
#include "python.h"

int cmd_merge(int count, char **arguments)
{
    static char option[] = "-m", module[] = "torch_spyre.profiler.merge";
    if (count == 0) return cli_complain("merge", "the traces of the ranks are missing");
    return cli_become_python("merge", option, module, count, arguments);
}
