// SPDX-License-Identifier: Apache-2.0
//
// The pass runner: order of pass.def, a check after every pass in debug builds, and on request the
// same check and the plan as text after those that changed it.
#include <string.h>

#include "card/plan/pass.h"

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

// Appends the plan to `out` unless it is `*last`, which becomes the plan.
static spyre_status dump(const translation *t, const pass_row *pass, text *last, text *out)
{
    text now = {0};
    spyre_status status = plan_print(t, &now);
    if (!status) status = text_status(&now);
    bool same = !status && strcmp(text_string(&now), text_string(last)) == 0;
    text_printf(out, "pass %s: %s%s\n", pass->name, pass->summary, same ? " (no change)" : "");
    if (!same) text_append(out, text_string(&now));
    text_free(last);
    *last = now;
    return status;
}

spyre_status plan_translate(translation *t, text *out)
{
    text last = {0};
    spyre_status status = NULL;
    for (size_t n = 0; n < sizeof passes / sizeof *passes && !status; n++) {
        status = passes[n].run(t);
        if (!status && (verifies || out))
            status = status_at(plan_verify(t), "after pass %s", passes[n].name);
        if (!status && out) status = dump(t, &passes[n], &last, out);
    }
    text_free(&last);
    return status;
}
