// SPDX-License-Identifier: Apache-2.0
//
// LOADs and STOREs that instructions can do without: which copies of a kernel may go. What takes
// their place is in forward_operand.c and forward_writers.c (forward.h).
#include "card/pass/forward.h"

#include <string.h>

// --- Order

static bool nets_nothing(const uint32_t *before, const uint32_t *now)
{
    for (uint32_t t = 0; t < ISA_MAX_TOKENS; t++)
        if (before[t] != now[t]) return false;
    return true;
}

// True when the code of a kernel, taken instruction by instruction, never waits for a token or for
// the ring: then this is one of the orders its queues may take.
static bool runs_in_order(const isa_program *program, const plan_kernel *kernel)
{
    uint32_t token[ISA_MAX_TOKENS] = {0}, entered[ISA_MAX_LOOPS][ISA_MAX_TOKENS], depth = 0;
    for (uint32_t at = kernel->begin; at < kernel->end; at++) {
        const isa_instruction *i = program->code.items[at];
        if (i->opcode == ISA_SEND || i->opcode == ISA_RECEIVE) return false;
        if (i->opcode == ISA_SIGNAL) token[i->token]++;
        if (i->opcode == ISA_WAIT && token[i->token]-- == 0) return false;
        if (i->opcode == ISA_LOOP) {
            for (uint32_t t = 0; t < ISA_MAX_TOKENS; t++) entered[depth][t] = token[t];
            depth++;
        }
        // What one iteration leaves as it was, all leave so.
        if (i->opcode == ISA_END_LOOP && !nets_nothing(entered[--depth], token)) return false;
    }
    return true;
}

// --- Who wrote it

static const lx_access *at_index(const forwarding *f, uint32_t n)
{
    return &f->accesses.items[n];
}

static const isa_instruction *original(const forwarding *f, const lx_access *a)
{
    return f->program->code.items[a->at];
}

static bool same_operand(const isa_instruction *i, uint32_t a, uint32_t b)
{
    const isa_operand *x = &i->operand[a], *y = &i->operand[b];
    return x->offset == y->offset &&
           spyre_format_bytes(x->format) == spyre_format_bytes(y->format) &&
           memcmp(x->stride, y->stride, sizeof x->stride) == 0 &&
           memcmp(x->loop_stride, y->loop_stride, sizeof x->loop_stride) == 0;
}

// The read finds what its own instruction has written for other elements: both must stay one place.
static bool finds_own(const forwarding *f, const lx_access *read, const lx_access *write)
{
    if (read->at != write->at || read->writes || !write->writes) return false;
    return lx_overlap(write, read, read->depth) &&
           (!write->dense || !same_operand(original(f, read), 0, read->operand));
}

static bool read_feeds_itself(const forwarding *f, const lx_access *read)
{
    for (uint32_t n = 0; n < f->accesses.count; n++)
        if (finds_own(f, read, at_index(f, n))) return true;
    return false;
}

static bool write_feeds_itself(const forwarding *f, const lx_access *write)
{
    for (uint32_t n = 0; n < f->accesses.count; n++)
        if (finds_own(f, at_index(f, n), write)) return true;
    return false;
}

// --- Rewriting

static spyre_status replace_operand(forwarding *f, const lx_access *a, const lx_access *copy,
                                    bool *out_done)
{
    isa_instruction *work = isa_clone(f->memory, f->out[a->at]->instruction);
    TRY_ALLOC(work);
    *out_done = forward_operand(work, a->operand, f->tiles[copy->at], copy->depth, a->depth,
                                a->iterations);
    return *out_done ? plan_make_tile(f->memory, work, &f->out[a->at]) : NULL;
}

static bool may_read_memory(isa_opcode opcode, uint32_t operand)
{
    if (opcode == ISA_SCATTER || opcode == ISA_ACCUMULATE) return operand == 1;
    if (opcode == ISA_GATHER) return operand == 2;
    return operand > 0 &&
           (opcode == ISA_VECTOR || isa_reduces(opcode) || opcode == ISA_MATMUL ||
            opcode == ISA_STORE || opcode == ISA_RANK || (opcode == ISA_SCAN && operand == 2));
}

static spyre_status replace_reads(forwarding *f)
{
    for (uint32_t n = 0; n < f->accesses.count; n++) {
        const lx_access *read = at_index(f, n);
        if (read->writes || !may_read_memory(original(f, read)->opcode, read->operand)) continue;
        const lx_access *writer = forward_writer_of(f, n);
        if (!writer || original(f, writer)->opcode != ISA_LOAD || read_feeds_itself(f, read))
            continue;
        if (!plan_injective(f->tiles[writer->at], 0)) continue;
        TRY(replace_operand(f, read, writer, &f->replaced[n]));
    }
    return NULL;
}

static void drop_loads(forwarding *f)
{
    for (uint32_t n = 0; n < f->accesses.count; n++) {
        const lx_access *write = at_index(f, n);
        bool loads = write->writes && original(f, write)->opcode == ISA_LOAD;
        if (loads && !forward_is_needed(f, write, NULL)) f->out[write->at] = NULL;
    }
}

static bool stores_between(const forwarding *f, uint32_t first, uint32_t last)
{
    for (uint32_t at = first + 1; at < last; at++)
        if (isa_stores(f->program->code.items[at]->opcode)) return true;
    return false;
}

// A STORE of exactly what one VECTOR, SCAN or GATHER writes, whose only reader it is.
static bool store_can_move(const forwarding *f, uint32_t n, const lx_access **out_writer)
{
    const lx_access *read = at_index(f, n), *writer = forward_writer_of(f, n);
    if (!writer) return false;
    const isa_opcode opcode = original(f, writer)->opcode;
    if (opcode != ISA_VECTOR && opcode != ISA_GATHER && opcode != ISA_SCAN) return false;
    *out_writer = writer;
    return writer->dense && read->depth == writer->depth && read->first.low == writer->first.low &&
           read->first.high == writer->first.high && plan_injective(f->tiles[read->at], 1) &&
           !stores_between(f, writer->at, read->at) && !write_feeds_itself(f, writer) &&
           !forward_is_needed(f, writer, read);
}

static spyre_status move_stores(forwarding *f)
{
    for (uint32_t n = 0; n < f->accesses.count; n++) {
        const lx_access *read = at_index(f, n), *writer;
        if (original(f, read)->opcode != ISA_STORE || f->replaced[n]) continue;
        bool done = false;
        if (store_can_move(f, n, &writer)) TRY(replace_operand(f, writer, read, &done));
        if (done) f->out[read->at] = NULL;
        f->replaced[n] = done;
    }
    return NULL;
}

static spyre_status forward_kernel(const translation *t, const plan_kernel *kernel, forwarding *f)
{
    *f = (forwarding){.memory = t->memory,
                      .program = t->program,
                      .tiles = t->tiles,
                      .exposed = &t->exposed,
                      .lx = &t->lx,
                      .kernel = kernel,
                      .out = t->forwarded,
                      .accesses = t->accesses[kernel->order]};
    for (uint32_t at = kernel->begin; at < kernel->end; at++) f->out[at] = f->tiles[at];
    f->replaced = ARENA_NEW(t->scratch, bool, f->accesses.count + 1);
    TRY_ALLOC(f->replaced);
    TRY(replace_reads(f));
    drop_loads(f);
    return move_stores(f);
}

spyre_status card_pass_forward_copies(translation *t)
{
    t->forwarded = ARENA_NEW(t->scratch, plan_tile *, t->program->code.count);
    t->kernels = ARENA_NEW(t->scratch, forwarding, t->lx.count);
    TRY_ALLOC(t->forwarded);
    TRY_ALLOC(t->kernels);
    for (uint32_t n = 0; n < t->loaded->phases.count; n++) {
        plan_kernel *kernel = t->loaded->phases.items[n].kernel;
        if (!kernel) continue;
        kernel->in_order = runs_in_order(t->program, kernel);
        if (kernel->in_order) TRY(forward_kernel(t, kernel, &t->kernels[kernel->order]));
    }
    return NULL;
}
