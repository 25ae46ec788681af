// SPDX-License-Identifier: Apache-2.0
//
// Records of the compile cache behind their checksum. A record is the build's own, so the input is
// what to change in a good one: three bytes a change, place (modulo the record's length) and value.
// What is accepted reports as any executable.
#include "compile/cache/cache_refusal.h"
#include "compile/files/executable_bytes.h"
#include "fuzz/fuzz.h"

static const char graph_text[] =
    "input %x: f16[4, 64]\n"
    "%a = aten.relu.default(%x) -> f16[4, 64] @ \"a.py:1\"\n"
    "%b = aten.cumsum.default(%a, 1, none) -> f16[4, 64] @ \"a.py:2\"\n"
    "%c = aten.mul.Tensor(%b, 0.5) -> f16[4, 64] @ \"a.py:3\"\n"
    "return %c\n";
static const char subject[] = "subject";

static void make_record(text *out)
{
    spyre_graph *graph;
    spyre_executable *e;
    spyre_compile_options options = spyre_compile_options_default();
    options.settings.sencores = 2;
    fuzz_must(spyre_graph_parse(graph_text, "graph", &graph));
    fuzz_must(executable_compile(graph, &options, &e));
    fuzz_must(executable_put(e, subject, out));
    spyre_executable_destroy(e);
    spyre_graph_destroy(graph);
}

static void take(const uint8_t *bytes, size_t count)
{
    spyre_executable *e = executable_create();
    FUZZ_HOLDS(e);
    uint8_t *own = arena_alloc(e->memory, count);
    FUZZ_HOLDS(own);
    if (count) memcpy(own, bytes, count);
    char *report;
    const char *reason;
    if (fuzz_ok(cache_refusal_take(own, count, subject, &reason)) && reason)
        FUZZ_HOLDS(memchr(reason, 0, count));
    if (fuzz_ok(executable_take(e, subject, own, count))) {
        fuzz_must(spyre_executable_report(e, &report));
        spyre_string_free(report);
    }
    spyre_executable_destroy(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static text record;
    if (!record.length) make_record(&record);
    take(bytes, count);
    uint8_t *changed = malloc(record.length);
    FUZZ_HOLDS(changed);
    memcpy(changed, record.bytes, record.length);
    for (size_t at = 0; at + 3 <= count; at += 3) {
        size_t place = (size_t)bytes[at] + (size_t)bytes[at + 1] * 256;
        changed[place % record.length] = bytes[at + 2];
    }
    take(changed, count % 3 == 2 ? record.length - count % record.length : record.length);
    free(changed);
    return 0;
}
