// SPDX-License-Identifier: Apache-2.0
#include "front/layout/stick_report.h"

#include <inttypes.h>

#include "front/cost/cost.h"
#include "front/ir/def_use.h"

typedef struct {
    loop_graph *loops;
    stick_pricer pricer;
    const stick_mode *modes; // by op
    uint8_t *dim;            // by buffer
    def_use uses;
} reporter;

// Of the copies on one side of an op.
typedef struct {
    double us;
    bool impossible;
} copies_price;

// Copies for operand k when its buffer's stick runs along `stick`.
static spyre_status add_copies(reporter *r, uint32_t op_index, uint32_t k, const stick_mode *mode,
                               uint8_t stick, copies_price *sum)
{
    const loop_op op = r->loops->ops.items[op_index];
    stick_restickify_price price;
    TRY(stick_price_restickify(&r->pricer, &op, k, mode, stick, &price));
    sum->impossible |= price.impossible;
    for (uint32_t i = 0; i < price.count; i++) sum->us += price.copy[i].us;
    return NULL;
}

static spyre_status print_mode(reporter *r, uint32_t index, const stick_mode *mode, text *out)
{
    const loop_op op = r->loops->ops.items[index];
    uint32_t result = loop_result(&op)->buffer;
    uint8_t v = mode->stick[op.operand_count - 1];
    copies_price before = {0, false};
    copies_price behind = {
        stick_output_us(r->loops, &r->loops->buffers.items[result], mode->dim), false};
    for (uint32_t k = 0; k + 1 < op.operand_count; k++)
        TRY(add_copies(r, index, k, mode, r->dim[op.operand[k].buffer], &before));
    for (uint32_t u = r->uses.first_use[result]; u < r->uses.first_use[result + 1]; u++) {
        const def_use_use *use = &r->uses.uses[u];
        TRY(add_copies(r, use->op, use->operand, &r->modes[use->op], mode->dim, &behind));
    }
    text_append(out, "//     ");
    if (v == LOOP_NO_DIM)
        text_append(out, "sparse");
    else if (v == LOOP_ROWS)
        text_append(out, "rows");
    else
        text_printf(out, "c%u", v);
    if (before.impossible || behind.impossible)
        text_append(out, ": cannot be built");
    else
        text_printf(out, ": %.3f us + %.3f for copies before + %.3f behind",
                    stick_op_us(r->loops, &op, mode), before.us, behind.us);
    text_append(out, mode->dim == r->dim[result] ? "  <- chosen\n" : "\n");
    return NULL;
}

// Pieces of one buffer cannot choose alone.
static spyre_status print_op(reporter *r, uint32_t index, uint16_t writable, text *out)
{
    const loop_op op = r->loops->ops.items[index];
    stick_mode_list modes;
    if (!def_use_is_written_once(&r->uses, loop_result(&op)->buffer)) return NULL;
    stick_modes_of(r->loops, &op, writable, &modes);
    text_printf(out, "// op %s %s\n", op.name, opfunc_describe(op.op)->name);
    for (uint32_t m = 0; m < modes.count; m++) {
        bool chosen = modes.items[m].dim == r->modes[index].dim;
        TRY(print_mode(r, index, chosen ? &r->modes[index] : &modes.items[m], out));
        while (m + 1 < modes.count && modes.items[m + 1].dim == modes.items[m].dim) m++;
    }
    return NULL;
}

static void print_sums(const stick_choice *choice, const char *begin, text *out)
{
    text_printf(out, "%ssticks: predicted %.3f us, op by op %.3f us; ops alone %.3f us\n", begin,
                choice->us, choice->greedy_us, choice->least_us);
    double limit = choice->us * (1 - STICK_LEAST_GAIN);
    text_append(out, begin);
    if (choice->global && !choice->left_out)
        text_append(out, "no choice costs less");
    else if (choice->least_us >= limit || (choice->searched && !choice->left_out))
        text_printf(out, "no choice costs %.0f %% less", STICK_LEAST_GAIN * 100);
    else if (choice->searched)
        text_printf(out, "%" PRIu64 " states were left out: another choice may cost less",
                    choice->left_out);
    else
        text_append(out, "chosen op by op");
    text_printf(out, "; up to %u states at a time\n", choice->widest);
}

void stick_report_sums(const loop_graph *loops, text *out)
{
    uint32_t count = 0;
    double bytes = 0;
    if (!loops->sticks) return;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (op->op != OPFUNC_RESTICKIFY) continue;
        cost_basis basis = cost_basis_of(loops, op);
        count++;
        bytes += basis.bytes[0] + basis.bytes[1];
    }
    text_printf(out, "%u restickifies of %.0f bytes\n", count, bytes);
    print_sums(loops->sticks, "", out);
}

static spyre_status print(reporter *r, const stick_choice *choice, text *out)
{
    const uint16_t *writable;
    TRY(stick_writable(r->loops, &writable));
    print_sums(choice, "// ", out);
    for (uint32_t i = 0; i < r->loops->ops.count; i++) {
        const loop_op *op = &r->loops->ops.items[i];
        TRY(print_op(r, i, writable[loop_result(op)->buffer], out));
    }
    return text_status(out);
}

spyre_status stick_report(loop_graph *loops, arena *scratch, const stick_mode *modes,
                          const stick_choice *choice, const char **out_text)
{
    reporter r = {.loops = loops, .modes = modes};
    text t = {0};
    TRY(stick_pricer_begin(loops, scratch, &r.pricer));
    TRY(def_use_build(loops, &r.uses));
    TRY_NEW(scratch, r.dim, loops->buffers.count);
    for (uint32_t i = 0; i < loops->ops.count; i++)
        r.dim[loops->ops.items[i].operand[loops->ops.items[i].operand_count - 1].buffer] =
            modes[i].dim;
    spyre_status status = print(&r, choice, &t);
    *out_text = status ? NULL : arena_strdup(loops->memory, text_string(&t));
    text_free(&t);
    TRY(status);
    TRY_ALLOC(*out_text);
    return NULL;
}
