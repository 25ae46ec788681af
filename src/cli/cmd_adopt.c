// SPDX-License-Identifier: Apache-2.0
//
// Hands over to torch_spyre/adopt/launch.py, by its path: the package would import PyTorch.
#include "cli.h"
#include "python.h"

int cmd_adopt(int count, char **arguments)
{
    static char option[] = "-c",
                program[] = "import importlib.util, os, runpy\n"
                            "package = importlib.util.find_spec('torch_spyre')\n"
                            "if package is None:\n"
                            "    raise SystemExit('spyre adopt: this Python has no torch_spyre')\n"
                            "folder = os.path.dirname(package.origin)\n"
                            "runpy.run_path(f'{folder}/adopt/launch.py', run_name='__main__')\n";
    if (count == 0) return cli_complain("adopt", "the directory of a checkout is missing");
    return cli_become_python("adopt", option, program, count, arguments);
}
