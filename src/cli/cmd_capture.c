// SPDX-License-Identifier: Apache-2.0
//
// Hands over to Python, where programs run: python3 -m torch_spyre.debug.capture.
#include "cli.h"
#include "python.h"

int cmd_capture(int count, char **arguments)
{
    static char option[] = "-m", module[] = "torch_spyre.debug.capture";
    if (count == 0) return cli_complain("capture", "a script is missing");
    return cli_become_python("capture", option, module, count, arguments);
}
