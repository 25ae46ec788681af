// SPDX-License-Identifier: Apache-2.0
//
// The pass runner: order of pass.def, skip by name, check the invariants after every pass, dump
// after those that changed something.
#include "front/check/translation.h"
#include "front/front.h"
#include "front/pass_times.h"

const front_pass_row front_passes[FRONT_PASS_COUNT] = {
#define PASS_ROW(name, kind, summary) {#name, FRONT_##kind, pass_##name},
#include "front/pass.def"
#undef PASS_ROW
};

bool front_validates(const spyre_settings *settings)
{
#ifdef NDEBUG
    return settings->validate_graph_invariants;
#else
    (void)settings;
    return true;
#endif
}

static void dump(loop_graph *loops, text *out)
{
    if (!out) return;
    loop_print(loops, out);
    loops->notes = NULL;
    text_append(out, "\n");
}

static spyre_status check(const loop_graph *loops, bool changed, pass_times *records)
{
    if (!front_validates(&loops->settings)) return NULL;
#ifndef NDEBUG
    changed = true; // whatever the pass says
#endif
    pass_times_watch watch = pass_times_begin(loops->memory);
    spyre_status status = changed ? loop_verify(loops) : loop_verify_begun(loops);
#ifndef NDEBUG
    enum { MOST_OPS = 1000 }; // writing and reading the text takes longer than all passes
    if (!status && loops->ops.count <= MOST_OPS) status = loop_check_text(loops);
#endif
    pass_times_end(&watch, "invariants", loops, false, records);
    return status;
}

static spyre_status run_pass(loop_graph *loops, uint32_t index, const front_options *options,
                             pass_times *records)
{
    const front_pass_row *row = &front_passes[index];
    bool changed = false;
    loops->stage = index + 1;
    if (front_skips(&loops->settings, row->name)) return NULL;
    if (loops->follows && row->kind == FRONT_PLAN) return NULL;
    pass_times_watch watch = pass_times_begin(loops->memory);
    arena *scratch = arena_create();
    TRY_ALLOC(scratch);
    loops->scratch = scratch; // a pass that goes back to a copy loses it
    spyre_status status = row->run(loops, &changed);
    loops->scratch = NULL;
    arena_destroy(scratch);
    TRY(status);
    pass_times_end(&watch, row->name, loops, changed, records);
    TRY(check(loops, changed, records));
    if (changed) dump(loops, options->dump);
    return NULL;
}

// The passes that have not had their turn, and emission.
static spyre_status finish(loop_graph *loops, const front_options *options, pass_times *records,
                           front_result *out_result)
{
    loops->explains = options->dump != NULL;
    dump(loops, options->dump);
    for (uint32_t i = loops->stage; i < FRONT_PASS_COUNT; i++)
        TRY(run_pass(loops, i, options, records));
    pass_times_watch watch = pass_times_begin(loops->memory);
    TRY(front_emit(loops, out_result));
    pass_times_end(&watch, "emit", loops, false, records);
    out_result->records = *records;
    return NULL;
}

static spyre_status compile_loops(loop_graph *loops, const front_options *options,
                                  pass_times *records, front_result *out_result)
{
    const spyre_settings *settings = &options->settings;
    loops->settings = *settings;
    loops->cores = settings->sencores;
    loops->handed_plan = options->plan;
    loops->user.run = options->loop_pass;
    loops->user.context = options->loop_context;
    TRY(check(loops, true, records));
    TRY(finish(loops, options, records, out_result));
    if (!settings->validate_translation) return NULL;
    return translation_validate(loops->graph, settings, front_passes, FRONT_PASS_COUNT, front_emit);
}

spyre_status front_compile(const spyre_graph *graph, const front_options *options, arena *memory,
                           uint32_t *out_node, front_result *out_result)
{
    loop_graph *loops;
    pass_times records = {0};
    *out_node = 0;
    TRY(spyre_settings_check(&options->settings));
    TRY(front_check_skips(options->settings.skip_passes));
    pass_times_watch watch = pass_times_begin(memory);
    TRY(front_build(graph, memory, out_node, &loops));
    pass_times_end(&watch, "build", loops, true, &records);
    spyre_status status = compile_loops(loops, options, &records, out_result);
    *out_node = *loops->at_node;
    return status;
}

static spyre_status go_on(loop_graph *loops, const front_options *options,
                          front_result *out_result)
{
    pass_times records = {0};
    TRY(spyre_settings_check(&loops->settings));
    TRY(front_check_skips(loops->settings.skip_passes));
    if (loops->settings.validate_translation)
        return status_new(SPYRE_UNSUPPORTED,
                          "validate_translation needs the graph, not what passes made of it");
    TRY(loop_verify(loops));
    return finish(loops, options, &records, out_result);
}

spyre_status front_continue(loop_graph *loops, const front_options *options,
                            front_result *out_result)
{
    return front_fault_of_input(go_on(loops, options, out_result));
}
