# SPDX-License-Identifier: Apache-2.0
"""The library by ctypes, for many small calls; run in a process of its own, which may die.

`python library.py LIBRARY` compiles each graph text of the JSON list on stdin, and prints as JSON
what became of it: null, or [code, message].
"""

import ctypes
import json
import sys

library = ctypes.CDLL(sys.argv[1])
library.spyre_status_message.restype = ctypes.c_char_p
library.spyre_code_name.restype = ctypes.c_char_p


def call(name, *arguments):
    function = getattr(library, name)
    function.restype = ctypes.c_void_p
    if not (status := function(*arguments)):
        return None
    status = ctypes.c_void_p(status)
    code = library.spyre_code_name(library.spyre_status_code(status)).decode()
    message = library.spyre_status_message(status).decode(errors="replace")
    library.spyre_status_free(status)
    return code, message


def compile_text(text):
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
    if error := call("spyre_graph_parse", text.encode(), b"graph", ctypes.byref(graph)):
        return error
    if not (error := call("spyre_compile", graph, None, ctypes.byref(executable))):
        library.spyre_executable_destroy(executable)
    library.spyre_graph_destroy(graph)
    return error


if __name__ == "__main__":
    for source in json.load(sys.stdin):
        print(source, file=open("last.graph", "w"), flush=True)  # noqa: SIM115
        print(json.dumps(compile_text(source)))
