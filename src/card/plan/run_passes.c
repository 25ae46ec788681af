// SPDX-License-Identifier: Apache-2.0
//
// The pass runner: order of pass.def, a check after every pass in debug builds, and on request the
// same check and the phases as text that a pass changed.
#include <string.h>

#include "card/plan/pass.h"

enum { MOST_PHASES = 8 };               // of an instruction (compose_copies.c)

typedef struct {
    const char *name, *summary;
    spyre_status (*run)(translation *t);
} pass_row;

static const pass_row passes[] = {
#define PASS_ROW(name, summary) {#name, summary, card_pass_##name},
#include "card/plan/pass.def"
#undef PASS_ROW
};

#ifdef NDEBUG
static const bool verifies = false;
#else
static const bool verifies = true;
#endif

// Appends the phases whose text is not last[phase], which becomes theirs.
static spyre_status dump(const translation *t, const pass_row *pass, text *last, text *out)
{
    bool same = true;
    text_printf(out, "pass %s: %s\n", pass->name, pass->summary);
    for (uint32_t n = 0; n < t->loaded->phases.count; n++) {
        text now = {0};
        plan_print(t, n, &now);
        TRY(text_status(&now));
        bool changed = strcmp(text_string(&now), text_string(&last[n])) != 0;
        if (changed) text_append(out, text_string(&now));
        same = same && !changed;
        text_free(&last[n]);
        last[n] = now;
    }
    if (same) text_append(out, "no change\n");
    return text_status(out);
}

static spyre_status run_passes(translation *t, text *last, text *out)
{
    for (size_t n = 0; n < sizeof passes / sizeof *passes; n++) {
        TRY(passes[n].run(t));
        if (verifies || out) TRY(status_at(plan_verify(t), "after pass %s", passes[n].name));
        if (out) TRY(dump(t, &passes[n], last, out));
    }
    return NULL;
}

spyre_status plan_run_passes(translation *t, text *out)
{
    uint32_t most = MOST_PHASES * t->program->code.count;
    text *last = out ? ARENA_NEW(t->scratch, text, most) : NULL;
    if (out) TRY_ALLOC(last);
    spyre_status status = run_passes(t, last, out);
    for (uint32_t n = 0; out && n < most; n++) text_free(&last[n]);
    return status;
}
