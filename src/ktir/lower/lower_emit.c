// SPDX-License-Identifier: Apache-2.0
//
// Instructions, kernels, loops, room in LX. Queues take turns: whenever the queue changes, the last
// one signals the next one.
#include <string.h>

#include "ktir/lower/lowering.h"

static spyre_status push(lowering *w, isa_instruction i)
{
    if (w->program->code.count >= LOWERING_MOST_CODE)
        return status_new(SPYRE_UNSUPPORTED, "a program of more than %d instructions",
                          LOWERING_MOST_CODE);
    return isa_append(w->program, &i);
}

// --- Kernels

static spyre_status begin_kernel(lowering *w, const ktir_op *op)
{
    const char *file = strrchr(w->m->file, '/');
    isa_kernel kernel = {.active_cores = w->active};
    kernel.name = arena_printf(w->memory, "%u_%s", w->program->kernels.count,
                               w->call->function->name);
    kernel.location = arena_printf(w->memory, "%s:%u", file ? file + 1 : w->m->file, op->line);
    TRY_ALLOC(kernel.name);
    TRY_ALLOC(kernel.location);
    w->in_kernel = true;
    w->kernel_depth = w->depth;
    w->last_queue = ISA_QUEUE_SEQ;
    w->slots = (lowered_slots){0};
    isa_instruction i = {.opcode = ISA_KERNEL, .count = w->program->kernels.count};
    TRY(VEC_PUSH(w->memory, &w->program->kernels, kernel));
    return push(w, i);
}

spyre_status lower_end_kernel(lowering *w)
{
    if (!w->in_kernel) return NULL;
    isa_kernel *kernel = &w->program->kernels.items[w->program->kernels.count - 1];
    int64_t *rows = ARENA_NEW(w->memory, int64_t, (size_t)ISA_CORES * w->slots.count + 1);
    TRY_ALLOC(rows);
    for (uint32_t s = 0; s < w->slots.count; s++)
        for (uint32_t c = 0; c < ISA_CORES; c++)
            rows[c * w->slots.count + s] = w->slots.items[s][c];
    kernel->slot_count = w->slots.count;
    kernel->parameters = rows;
    w->in_kernel = false;
    return push(w, (isa_instruction){.opcode = ISA_END_KERNEL});
}

spyre_status lower_slot(lowering *w, const ktir_op *op, const int64_t *at, uint16_t *out_slot)
{
    if (!w->in_kernel) TRY(begin_kernel(w, op));
    for (uint32_t s = 0; s < w->slots.count; s++) {
        *out_slot = (uint16_t)s;
        if (memcmp(w->slots.items[s], at, ISA_CORES * sizeof *at) == 0) return NULL;
    }
    int64_t *row = ARENA_NEW(w->memory, int64_t, ISA_CORES);
    TRY_ALLOC(row);
    memcpy(row, at, ISA_CORES * sizeof *at);
    *out_slot = (uint16_t)w->slots.count;
    if (w->slots.count == ISA_NO_SLOT) return LOWER_NO(w, op, "too many parameters of a kernel");
    return VEC_PUSH(w->memory, &w->slots, row);
}

// --- Instructions

static spyre_status hand_over(lowering *w, isa_queue from, isa_queue to)
{
    uint16_t token = (uint16_t)(((uint32_t)from - 1) * 5 + (uint32_t)to - 1);
    TRY(push(w, (isa_instruction){.opcode = ISA_SIGNAL, .queue = from, .token = token}));
    return push(w, (isa_instruction){.opcode = ISA_WAIT, .queue = to, .token = token});
}

// Of the latest instruction; what an attempt that was taken back has noted behind it is gone.
static spyre_status note_place(lowering *w, const ktir_op *op)
{
    uint32_t number = w->program->code.count - 1;
    const ktir_place place = {op->line, op->column, op->opcode};
    if (w->places.count > number) w->places.count = number;
    while (w->places.count < number) TRY(VEC_PUSH(w->memory, &w->places, (ktir_place){0}));
    return VEC_PUSH(w->memory, &w->places, place);
}

spyre_status lower_emit(lowering *w, const ktir_op *op, isa_instruction i)
{
    if (!w->in_kernel) TRY(begin_kernel(w, op));
    i.queue = isa_describe(i.opcode)->queue;
    if (w->last_queue != ISA_QUEUE_SEQ && w->last_queue != i.queue)
        TRY(hand_over(w, w->last_queue, i.queue));
    w->last_queue = i.queue;
    TRY(push(w, i));
    return note_place(w, op);
}

spyre_status lower_loop(lowering *w, const ktir_op *op, int64_t trips)
{
    if (w->depth == ISA_MAX_LOOPS)
        return LOWER_NO(w, op, "more than %d nested loops", ISA_MAX_LOOPS);
    if (trips > UINT32_MAX) return LOWER_NO(w, op, "%lld iterations", (long long)trips);
    w->trips[w->depth++] = trips;
    return push(w, (isa_instruction){.opcode = ISA_LOOP, .count = (uint32_t)trips});
}

spyre_status lower_end_loop(lowering *w, isa_queue first_queue)
{
    bool inside = w->in_kernel && first_queue != ISA_QUEUE_SEQ;
    if (inside && w->last_queue != first_queue) {
        TRY(hand_over(w, w->last_queue, first_queue));
        w->last_queue = first_queue;
    }
    w->depth--;
    return push(w, (isa_instruction){.opcode = ISA_END_LOOP});
}

// --- Tiles

static bool merges(const lowered_tile *t, uint32_t outer)
{
    for (uint32_t o = 0; o < t->i.operand_count; o++)
        if (t->stride[o][outer] != t->stride[o][outer + 1] * t->size[outer + 1]) return false;
    return true;
}

static void remove_dim(lowered_tile *t, uint32_t d)
{
    t->rank--;
    for (uint32_t n = d; n < t->rank; n++) {
        t->size[n] = t->size[n + 1];
        for (uint32_t o = 0; o < t->i.operand_count; o++) t->stride[o][n] = t->stride[o][n + 1];
    }
}

spyre_status lower_tile(lowering *w, const ktir_op *op, lowered_tile *t)
{
    for (uint32_t d = t->rank; d-- > 0;)
        if (t->size[d] == 1 && d + t->keep < t->rank && t->rank > 1) remove_dim(t, d);
    for (uint32_t n = t->rank - t->keep; n-- > 1;) {
        if (!merges(t, n - 1)) continue;
        t->size[n] *= t->size[n - 1];
        remove_dim(t, n - 1);
    }
    if (!t->rank) {
        t->size[0] = 1;
        for (uint32_t o = 0; o < t->i.operand_count; o++) t->stride[o][0] = 0;
        t->rank = 1;
    }
    if (t->rank > ISA_MAX_DIMS)
        return LOWER_NO(w, op, "a tile of %u dims: an instruction has %d", t->rank, ISA_MAX_DIMS);
    t->i.dim_count = (uint8_t)t->rank;
    for (uint32_t d = 0; d < t->rank; d++) {
        t->i.extent[d] = (uint32_t)t->size[d];
        for (uint32_t o = 0; o < t->i.operand_count; o++)
            t->i.operand[o].stride[d] = t->stride[o][d];
    }
    return lower_emit(w, op, t->i);
}

// --- Room in LX

spyre_status lower_allocate(lowering *w, const ktir_op *op, int64_t bytes, uint32_t last,
                            int64_t *out_offset)
{
    lowered_heap *h = &w->heap;
    int64_t offset = 0, rounded = (bytes + SPYRE_STICK_BYTES - 1) & -(int64_t)SPYRE_STICK_BYTES;
    uint32_t at = 0;
    for (; at < h->count && h->items[at].offset - offset < rounded; at++)
        offset = h->items[at].offset + h->items[at].bytes;
    if (rounded > ISA_LX_BYTES || offset > ISA_LX_BYTES - rounded) {
        int64_t taken = 0;
        for (uint32_t n = 0; n < h->count; n++) taken += h->items[n].bytes;
        return LOWER_NO(w, op, "%lld bytes more than the %lld that are in use do not fit the %d of "
                        "LX", (long long)rounded, (long long)taken, ISA_LX_BYTES);
    }
    if (h->count == LOWERING_MOST_LIVE)
        return LOWER_NO(w, op, "more than %d tensors at one time", LOWERING_MOST_LIVE);
    memmove(&h->items[at + 1], &h->items[at], (h->count - at) * sizeof *h->items);
    h->items[at] = (lowered_buffer){.offset = offset, .last = last,
                                      .bytes = rounded ? rounded : SPYRE_STICK_BYTES};
    h->count++;
    *out_offset = offset;
    return NULL;
}

void lower_keep(lowering *w, int64_t offset, uint32_t last)
{
    lowered_heap *h = &w->heap;
    for (uint32_t n = 0; n < h->count; n++)
        if (offset >= h->items[n].offset && offset < h->items[n].offset + h->items[n].bytes &&
            h->items[n].last < last)
            h->items[n].last = last;
}

void lower_hold(lowering *w, uint32_t last)
{
    for (uint32_t n = 0; n < w->heap.count; n++)
        if (w->heap.items[n].last == last) w->heap.items[n].holds++;
}

void lower_let_go(lowering *w, uint32_t last)
{
    for (uint32_t n = 0; n < w->heap.count; n++) {
        lowered_buffer *b = &w->heap.items[n];
        if (b->last == last && b->holds) b->holds--;
    }
}

void lower_free(lowering *w, uint32_t number)
{
    lowered_heap *h = &w->heap;
    uint32_t kept = 0;
    for (uint32_t n = 0; n < h->count; n++)
        if (h->items[n].last > number || h->items[n].holds) h->items[kept++] = h->items[n];
    h->count = kept;
}

static void dense_strides(lowered_tensor *t)
{
    int64_t stride = spyre_format_bytes(t->format);
    for (uint32_t d = t->rank; d-- > 0; stride *= t->size[d]) t->stride[d] = stride;
}

spyre_status lower_scratch(lowering *w, const ktir_op *op, spyre_format format,
                           lowered_sizes sizes, uint32_t last, lowered_tensor *out)
{
    int64_t bytes = spyre_format_bytes(format);
    lowered_tensor made = {.format = format, .rank = sizes.rank};
    for (uint32_t d = 0; d < sizes.rank; d++) {
        const int64_t size = made.size[d] = sizes.size[d];
        if (size < 1) return LOWER_NO(w, op, "a tensor without elements");
        if (__builtin_mul_overflow(bytes, size, &bytes) || bytes >> 40)
            return LOWER_NO(w, op, "a tensor of more than 2^40 bytes");
    }
    dense_strides(&made);
    *out = made;
    return lower_allocate(w, op, bytes, last, &out->offset);
}

spyre_status lower_scratch_like(lowering *w, const ktir_op *op, spyre_format format,
                                const lowered_tensor *like, lowered_tensor *out)
{
    return lower_scratch(w, op, format, lower_sizes(like), lower_number(w, op), out);
}
