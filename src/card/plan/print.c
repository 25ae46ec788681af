// SPDX-License-Identifier: Apache-2.0
//
// A plan as text: phases in their order, for every kernel the statements that are left and how they
// will be executed. Each line says what one pass has found, so that it appears from that pass on.
#include <inttypes.h>

#include "card/machine/messages.h"
#include "card/plan.h"
#include "card/plan/pass.h"
#include "card/row_fusion/row_fusion.h"

enum { INDENT = 4 };

static const char *plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

static void begin_line(text *out, uint32_t depth)
{
    text_printf(out, "%*s", (int)(depth * INDENT), "");
}

static void print_extents(const plan_tile *tile, text *out)
{
    for (uint32_t d = 0; d < tile->dim_count; d++)
        text_printf(out, "%s%" PRId64, d ? ", " : " [", tile->extent[d]);
    if (tile->dim_count) text_append(out, "]");
}

// "32..63" for runs of bits.
static void print_cores(uint32_t cores, text *out)
{
    const char *separator = "";
    for (uint32_t first = 0, end; first < ISA_CORES; first = end) {
        end = first + 1;
        if (!(cores >> first & 1u)) continue;
        while (end < ISA_CORES && cores >> end & 1u) end++;
        text_printf(out, "%s%u", separator, first);
        if (end > first + 1) text_printf(out, "..%u", end - 1);
        separator = ",";
    }
}

// --- Statements

static void print_operand(const isa_operand *o, text *out)
{
    text_printf(out, "%s ", spyre_format_name(o->format));
    if (o->space == ISA_SPACE_LX) text_append(out, "lx");
    else if (o->space == ISA_SPACE_NUMBER) text_append(out, "number");
    else text_printf(out, "arg%u", o->arg);
    if (o->space != ISA_SPACE_LX && o->slot != ISA_NO_SLOT)
        text_printf(out, "+slot%u", o->slot);
    text_printf(out, "%+" PRId64, o->offset);
}

static const char *name_of(const isa_instruction *i)
{
    bool has_op = i->opcode == ISA_VECTOR || i->opcode == ISA_REDUCE || i->opcode == ISA_FOLD;
    return has_op ? opfunc_describe(i->op)->name : "";
}

static void print_product(const product *x, text *out)
{
    text_printf(out, " %u batches, %u rows, %u columns, k %zu%s", x->batches.count, x->rows.count,
                x->columns.count * x->kept, x->depth, x->adds ? ", added" : "");
}

static void print_statement(const plan_tile *tile, uint32_t depth, text *out)
{
    const isa_instruction *i = tile->instruction;
    begin_line(out, depth);
    text_printf(out, "%s%s%s", isa_describe(i->opcode)->mnemonic, *name_of(i) ? " " : "",
                name_of(i));
    if (tile->product) print_product(tile->product, out);
    else print_extents(tile, out);
    for (uint32_t o = 0; o < i->operand_count; o++) {
        text_append(out, o == 0 ? ": " : o == 1 ? " <- " : ", ");
        print_operand(&i->operand[o], out);
    }
    text_append(out, tile->streams ? ", past the caches\n" : "\n");
}

// A loop without a statement is left out, as among the steps.
static bool loop_is_empty(const isa_program *program, plan_tile *const *tiles, uint32_t at)
{
    uint32_t depth = 0;
    do {
        isa_opcode opcode = program->code.items[at]->opcode;
        if (opcode == ISA_LOOP) depth++;
        if (opcode == ISA_END_LOOP) depth--;
        at++;
        if (depth && tiles[at]) return false;
    } while (depth);
    return true;
}

static void print_statements(const translation *t, const plan_kernel *kernel, text *out)
{
    plan_tile *const *tiles = kernel->in_order && t->forwarded ? t->forwarded : t->tiles;
    uint32_t depth = kernel->around.depth + 1, hidden = 0;
    for (uint32_t at = kernel->begin; at < kernel->end; at++) {
        const isa_instruction *i = t->program->code.items[at];
        if (i->opcode == ISA_END_LOOP && hidden) hidden--;
        else if (i->opcode == ISA_END_LOOP) depth--;
        if (tiles[at]) print_statement(tiles[at], depth, out);
        if (i->opcode != ISA_LOOP) continue;
        if (hidden || loop_is_empty(t->program, tiles, at)) {
            hidden++;
            continue;
        }
        begin_line(out, depth++);
        text_printf(out, "loop %u\n", i->count);
    }
}

// What is left of them in a kernel in order.
static void print_steps(const plan_kernel *kernel, text *out)
{
    uint32_t depth = kernel->around.depth + 1;
    for (const plan_step *s = kernel->steps[ISA_QUEUE_SEQ]; s->kind != STEP_END; s++) {
        if (s->kind == STEP_EXECUTE) print_statement(s->tile, depth, out);
        if (s->kind == STEP_END_LOOP) depth--;
        if (s->kind != STEP_LOOP) continue;
        begin_line(out, depth++);
        text_printf(out, "loop %u\n", s->count);
    }
}

// --- Row fusions

static const char *op_name(uint32_t op)
{
    if (op < VECTOR_APPLY) return vector_describe(op)->name;
    return opfunc_describe((opfunc)((op - VECTOR_APPLY) % OPFUNC_COUNT))->name;
}

static void print_step(const rows_step *s, text *out)
{
    text_append(out, op_name(s->overlap ? (uint32_t)VECTOR_READY_X : s->op));
    if (vector_is_formula(s->op)) text_append(out, " by its formula");
    else if (s->op >= VECTOR_APPLY_F32) text_append(out, " fp32");
    if (s->rest)
        text_printf(out, s->rest_of_each ? " to lane %u of each" : " to lane %u", s->rest);
    if (s->filled) {
        text_printf(out, " %g", (double)s->begin);
    } else if (vector_takes_elements(s->op)) {
        const rows_place *p = &s->place;
        if (p->own) text_append(out, " own");
        else if (p->space == ISA_SPACE_LX) text_append(out, " lx");
        else text_printf(out, " arg%u", p->arg);
        text_printf(out, "%+" PRId64, p->offset);
    }
    if (s->rounding != VECTOR_AS_IS)
        text_append(out, s->rounding == VECTOR_ROUND ? " round" : " round bits");
}

static void print_rows(const row_fusion *c, uint32_t depth, text *out)
{
    begin_line(out, depth);
    text_printf(out, "rows of %u kernel%s%s: ", c->kernels, plural(c->kernels),
                c->joined ? " of all cores" : "");
    const uint32_t outer = c->loops - c->inner;
    for (uint32_t n = 0; n < outer; n++) text_printf(out, "%u times ", c->iterations[n]);
    text_printf(out, "%u rows of %u %ssticks, ", c->rows, c->sticks, c->half ? "half " : "");
    if (c->group < c->rows) text_printf(out, "groups of %u, ", c->group);
    text_printf(out, "blocks of %u", c->block);
    for (uint32_t n = outer; n < c->loops; n++)
        text_printf(out, "%s %u times", n == outer ? ", each" : "", c->iterations[n]);
    text_append(out, "\n");
    for (uint32_t n = 0; n < c->items.count; n++) {
        const rows_item *item = &c->items.items[n];
        if (!item->count) {
            print_statement(item->tile[0], depth + 1, out);
            continue;
        }
        begin_line(out, depth + 1);
        if (item->once) text_append(out, "once: ");
        for (uint32_t s = 0; s < item->count; s++) {
            if (s) text_append(out, "; ");
            print_step(&c->steps.items[item->first + s], out);
        }
        text_append(out, "\n");
    }
}

// --- Kernels

static void print_queues(const plan_kernel *kernel, text *out)
{
    for (isa_queue q = ISA_QUEUE_LOAD; q < ISA_QUEUE_COUNT; q++)
        if (kernel->step_count[q] > 1)
            text_printf(out, ", %s %u", isa_queue_name(q), kernel->step_count[q] - 1);
}

static void print_messages(const message_copies *x, uint32_t depth, text *out)
{
    begin_line(out, depth);
    text_printf(out, "copies of %u messages from LX to LX, of bytes %" PRId64 "..%" PRId64 "\n",
                x->list.count, x->sent.low, x->sent.high);
}

static void print_kernel(const translation *t, const plan_kernel *kernel, text *out)
{
    uint32_t depth = kernel->around.depth;
    begin_line(out, depth);
    text_printf(out, "kernel %u %s%s%s: cores ", kernel->order, kernel->source->name,
                *kernel->source->location ? " at " : "", kernel->source->location);
    print_cores(kernel->source->active_cores, out);
    if (kernel->steps[ISA_QUEUE_SEQ])
        text_printf(out, ", %u steps in order", kernel->step_count[ISA_QUEUE_SEQ] - 1);
    else print_queues(kernel, out);
    text_printf(out, "%s%s\n", kernel->no_barrier ? ", no barrier before" : "",
                kernel->sends_later ? ", sends with the next" : "");
    if (kernel->messages) print_messages(kernel->messages, depth + 1, out);
    else if (kernel->steps[ISA_QUEUE_SEQ]) print_steps(kernel, out);
    else print_statements(t, kernel, out);
    if (kernel->rows) print_rows(kernel->rows, depth + 1, out);
    begin_line(out, kernel->remote ? depth + 1 : 0);
    if (kernel->remote) text_append(out, "not copied: the next kernel reads it at the senders\n");
}

static void print_joined(const joined_steps *joined, uint32_t depth, text *out)
{
    begin_line(out, joined->count ? depth : 0);
    if (joined->count) text_append(out, "cores of a unit joined:\n");
    for (uint32_t n = 0; n < joined->count; n++)
        print_statement(joined->items[n].tile, depth + 1, out);
}

static void print_stage(const plan_stage *stage, uint32_t depth, text *out)
{
    static const char *const kinds[] = {"tiles", "rows", "copies"};
    uint32_t cores = (uint32_t)__builtin_popcount(stage->cores);
    bool by_rows = stage->actions.count && stage->actions.items[0].shares;
    bool by_parts = stage->actions.count && stage->actions.items[0].parts;
    begin_line(out, depth);
    uint32_t units = (cores - 1) / stage->group.cores + 1;
    text_printf(out, "stage of %u kernel%s, %u unit%s of %u %s%s%s:", stage->kernels,
                plural(stage->kernels), units, plural(units), stage->group.cores,
                by_rows ? "share" : by_parts ? "part" : "core", plural(stage->group.cores),
                by_rows                   ? " of rows"
                : by_parts                ? " of a core's work"
                : stage->divides_products ? ", divided by product"
                                          : "");
    for (uint32_t n = 0; n < stage->actions.count; n++) {
        const plan_action *a = &stage->actions.items[n];
        text_printf(out, "%s kernel %u by %s", n ? "," : "", a->first, kinds[a->kind]);
    }
    text_printf(out, "%s\n", stage->private_lx ? "; LX of the host thread" : "");
    for (uint32_t n = 0; n < stage->actions.count; n++)
        print_joined(&stage->actions.items[n].joined, depth + 1, out);
}

void plan_print(const translation *t, uint32_t n, text *out)
{
    const plan_phase *phase = &t->loaded->phases.items[n];
    if (phase->kind == PHASE_LOOP) {
        begin_line(out, phase->depth);
        text_printf(out, "loop %u\n", phase->count);
    }
    if (phase->stage) print_stage(phase->stage, phase->depth, out);
    if (phase->kernel) print_kernel(t, phase->kernel, out);
}
