// SPDX-License-Identifier: Apache-2.0
//
// The public C interface as a C program sees it: installed headers and the shared library, nothing
// else. A graph becomes bytes, the bytes become an executable again, that runs on host arrays.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spyre/deploy.h"
#include "spyre/graph.h"

enum { ROWS = 4, INNER = 8, COLUMNS = 16 };

static const char source[] =
    "input %x: f32[4, 8]\n"
    "input %w: f32[8, 16]\n"
    "%x16 = prims.convert_element_type.default(%x, f16) -> f16[4, 8]\n"
    "%w16 = prims.convert_element_type.default(%w, f16) -> f16[8, 16]\n"
    "%r = aten.relu.default(%x16) -> f16[4, 8]\n"
    "%m = aten.mm.default(%r, %w16) -> f16[4, 16]\n"
    "%s = aten._softmax.default(%m, -1, false) -> f16[4, 16]\n"
    "%y = prims.convert_element_type.default(%s, f32) -> f32[4, 16]\n"
    "return %y\n";

static int failures;

static void expect(int holds, const char *what)
{
    if (holds) return;
    failures++;
    fprintf(stderr, "FAILED: %s\n", what);
}

static void must(spyre_status status, const char *what)
{
    if (!status) return;
    fprintf(stderr, "%s: %s\n", what, spyre_status_message(status));
    exit(1);
}

static void expect_error(spyre_status status, spyre_code code, const char *words)
{
    expect(spyre_status_code(status) == code && strstr(spyre_status_message(status), words) != NULL,
           words);
    spyre_status_free(status);
}

static spyre_executable *compile(void)
{
    spyre_graph *graph;
    spyre_executable *executable;
    must(spyre_graph_parse(source, "three_ops.graph", &graph), "parse");
    must(spyre_compile(graph, NULL, &executable), "compile");
    spyre_graph_destroy(graph);
    return executable;
}

static spyre_executable *through_bytes(spyre_executable *compiled)
{
    char *text;
    size_t length;
    void *bytes;
    spyre_executable *again;
    must(spyre_executable_encode(compiled, &bytes, &length), "encode");
    spyre_executable_destroy(compiled);
    expect_error(spyre_executable_decode(bytes, length - 1, &again), SPYRE_INVALID_FORMAT,
                 "checksum is wrong");
    expect_error(spyre_executable_decode(bytes, 10, &again), SPYRE_INVALID_FORMAT,
                 "shorter than a header");
    ((unsigned char *)bytes)[length / 2] ^= 1;
    expect_error(spyre_executable_decode(bytes, length, &again), SPYRE_INVALID_FORMAT,
                 "checksum is wrong");
    ((unsigned char *)bytes)[length / 2] ^= 1;
    must(spyre_executable_decode(bytes, length, &again), "decode");
    spyre_bytes_free(bytes);
    expect_error(spyre_executable_text(again, 0, "loop", &text), SPYRE_UNSUPPORTED,
                 "came as bytes");
    return again;
}

static void check(const float *x, const float *w, const float *y)
{
    for (int i = 0; i < ROWS; i++) {
        double e[COLUMNS], sum = 0;
        for (int j = 0; j < COLUMNS; j++) {
            double dot = 0;
            for (int k = 0; k < INNER; k++) dot += fmax(x[i * INNER + k], 0) * w[k * COLUMNS + j];
            sum += e[j] = exp(dot);
        }
        for (int j = 0; j < COLUMNS; j++)
            expect(fabs(e[j] / sum - y[i * COLUMNS + j]) < 0.005, "an element of the result");
    }
}

static void run(spyre_context *context, spyre_executable *executable)
{
    float x[ROWS * INNER], w[INNER * COLUMNS], y[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * INNER; i++) x[i] = (float)(i % 7 - 3) / 4;
    for (int i = 0; i < INNER * COLUMNS; i++) w[i] = (float)(i % 5 - 2) / 4;
    spyre_host_tensor inputs[] = {{x, sizeof x, SPYRE_DTYPE_F32}, {w, sizeof w, SPYRE_DTYPE_F32}};
    spyre_host_tensor output = {y, sizeof y, SPYRE_DTYPE_F32};
    must(spyre_executable_run(context, 0, executable, inputs, 2, &output, 1), "run");
    check(x, w, y);

    expect_error(spyre_executable_run(context, 0, executable, inputs, 1, &output, 1),
                 SPYRE_INVALID_ARGUMENT, "there are 2 and 1");
    inputs[1].byte_count--;
    expect_error(spyre_executable_run(context, 0, executable, inputs, 2, &output, 1),
                 SPYRE_INVALID_ARGUMENT, "input 1: 511 bytes are given, it has 512");
    inputs[1].byte_count++;
    output = (spyre_host_tensor){y, sizeof y / 2, SPYRE_DTYPE_F16};
    expect_error(spyre_executable_run(context, 0, executable, inputs, 2, &output, 1),
                 SPYRE_INVALID_ARGUMENT, "output 0: float16 is given, it is float32");
}

// What lies at `address` for an input or output.
static spyre_transfer transfer_of(uint64_t address, const spyre_layout *layout,
                                  const spyre_view *storage)
{
    return (spyre_transfer){.address = address, .layout = layout, .storage = storage,
                            .dtype = SPYRE_DTYPE_F32};
}

// One launch and one interpretation of the same inputs, on the card's memory.
static void by_definition(spyre_context *context, spyre_executable *executable)
{
    const spyre_segment *segment = spyre_executable_segment(executable, 0);
    const spyre_segment_output *output = &segment->outputs[0];
    float host[INNER * COLUMNS], results[2][ROWS * COLUMNS] = {{0}};
    uint64_t inputs[2], buffer;
    for (int i = 0; i < INNER * COLUMNS; i++) host[i] = (float)(i % 9 - 4) / 8;
    for (int i = 0; i < 2; i++) {
        must(spyre_memory_allocate(context, 0, 0, spyre_layout_bytes(&segment->input_layouts[i]),
                                   &inputs[i]), "allocate");
        spyre_transfer to = transfer_of(inputs[i], &segment->input_layouts[i],
                                        &segment->input_storages[i]);
        must(spyre_copy_to_card(context, &to, host), "copy");
    }
    must(spyre_memory_allocate(context, 0, 0, output->bytes, &buffer), "allocate");
    spyre_transfer from = transfer_of(buffer, &output->layout, &output->storage);
    must(spyre_launch(context, 0, 0, executable, 0, inputs, &buffer), "launch");
    must(spyre_copy_to_host(context, &from, results[0]), "copy");
    must(spyre_interpret(context, 0, 0, executable, 0, inputs, &buffer), "interpret");
    must(spyre_copy_to_host(context, &from, results[1]), "copy");
    expect(memcmp(results[0], results[1], sizeof results[0]) == 0, "the card by definition");
    expect(results[0][0] > 0, "a softmax");
    for (int i = 0; i < 2; i++) spyre_memory_free(context, 0, inputs[i]);
    spyre_memory_free(context, 0, buffer);
}

int main(void)
{
    spyre_context *context;
    must(spyre_context_create(1, &context), "context");
    spyre_executable *executable = compile();
    by_definition(context, executable);
    executable = through_bytes(executable);
    run(context, executable);
    spyre_memory_statistics left;
    spyre_memory_read_statistics(context, 0, &left);
    expect(left.allocated_bytes == 0, "card memory that a run left behind");
    spyre_executable_destroy(executable);
    spyre_context_destroy(context);
    return failures != 0;
}
