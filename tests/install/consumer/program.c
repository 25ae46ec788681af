// SPDX-License-Identifier: Apache-2.0
//
// A program of the installed interface: compiles a graph and tells what became of it.
#include <spyre/compile.h>
#include <spyre/version.h>
#include <stdio.h>
#include <string.h>

static const char source[] =
    "input %x: f16[4, 64]\n"
    "%y = aten.relu.default(%x) -> f16[4, 64]\n"
    "return %y\n";

static int failed(spyre_status status)
{
    if (!status) return 0;
    fprintf(stderr, "%s\n", spyre_status_message(status));
    spyre_status_free(status);
    return 1;
}

int main(void)
{
    spyre_graph *graph;
    spyre_executable *executable;
    if (strcmp(spyre_version(), SPYRE_VERSION) != 0) {
        fprintf(stderr, "headers %s, library %s\n", SPYRE_VERSION, spyre_version());
        return 1;
    }
    if (failed(spyre_graph_parse(source, "relu.graph", &graph))) return 1;
    if (failed(spyre_compile(graph, NULL, &executable))) return 1;
    printf("spyre %s: %u segment, %u kernel\n", spyre_version(),
           spyre_executable_segment_count(executable),
           spyre_executable_segment(executable, 0)->kernel_count);
    spyre_executable_destroy(executable);
    spyre_graph_destroy(graph);
    return 0;
}
