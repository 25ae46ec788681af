// SPDX-License-Identifier: Apache-2.0
#include "card/machine/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/odometer.h"
#include "card/machine/races.h"

enum { LX_STICKS = ISA_LX_BYTES / SPYRE_STICK_BYTES };
// Sticks of LX as sticks of races, beyond those of memory.
#define LX_KEY (1ull << 40)

struct checker {
    races *races;
    stick_mask written[ISA_CORES][LX_STICKS];       // since LX was forgotten
};

// --- Life

spyre_status check_create(checker **out_checker)
{
    checker *c = calloc(1, sizeof *c);
    TRY_ALLOC(c);
    spyre_status status = races_create(&c->races);
    if (status) free(c);
    else *out_checker = c;
    return status;
}

void check_end_launch(checker *c)
{
    races_end_launch(c->races);
}

void check_destroy(checker *c)
{
    if (!c) return;
    races_destroy(c->races);
    free(c);
}

void check_know_lx(checker *c, uint32_t core)
{
    memset(c->written[core], 0xFF, sizeof c->written[core]);
}

void check_wipe_lx(checker *c)
{
    memset(c->written, 0, sizeof c->written);
}

void check_begin_kernel(checker *c)
{
    races_begin_kernel(c->races);
}

// --- Order

// False, with a fault, where the host had no memory.
static bool remembered(core_run *run, const plan_step *step, bool has_memory)
{
    if (!has_memory)
        core_fault(run, step->instruction, 0, "the host has no memory for the checker");
    return has_memory;
}

bool check_signal(core_run *run, isa_queue queue, const plan_step *step)
{
    races *r = run->owner->check->races;
    return remembered(run, step, races_signal(r, run->core, queue, step->count));
}

void check_wait(core_run *run, isa_queue queue, uint32_t token)
{
    races_wait(run->owner->check->races, run->core, queue, token);
}

bool check_send(core_run *run, uint32_t receiver, const plan_step *step)
{
    return remembered(run, step, races_send(run->owner->check->races, run->core, receiver));
}

void check_receive(core_run *run, uint32_t sender)
{
    races_receive(run->owner->check->races, run->core, sender);
}

// --- Accesses

// An operand of the step at work.
typedef struct {
    core_run *run;
    const plan_step *step;
    uint32_t operand;
    uint16_t who;
    bool reads, writes, in_lx;
} access;

static uint32_t first_byte(stick_mask bytes)
{
    return bytes.half[0] ? (uint32_t)__builtin_ctzll(bytes.half[0])
                         : 64 + (uint32_t)__builtin_ctzll(bytes.half[1]);
}

static void report_race(const access *a, uint64_t stick, stick_mask bytes,
                        const access_record *other)
{
    stick_mask both = stick_mask_without(bytes, stick_mask_without(bytes, other->bytes));
    uint64_t at = stick * SPYRE_STICK_BYTES + first_byte(both);
    core_fault(a->run, a->step->instruction, at,
               "race: operand %u %s bytes of %s that core %u %s in queue %s, instruction %u, and "
               "nothing orders the two",
               a->operand, a->writes ? "writes" : "reads", a->in_lx ? "LX" : "memory",
               other->who / ISA_QUEUE_COUNT, other->writes ? "writes" : "reads",
               isa_queue_name((isa_queue)(other->who % ISA_QUEUE_COUNT)), other->instruction);
}

// Programs read whole sticks, the padding behind the last element too, which is never written. So a
// byte that nothing has written may be read when a byte before it in the stick, and none behind it,
// has been written.
static bool check_written(const access *a, uint32_t stick, stick_mask bytes)
{
    stick_mask *written = &a->run->owner->check->written[a->run->core][stick], known = *written;
    if (a->writes) *written = stick_mask_join(known, bytes);
    stick_mask missing = stick_mask_without(bytes, known);
    if (!a->reads || stick_mask_empty(missing)) return true;
    uint32_t first = first_byte(missing);
    stick_mask behind = stick_mask_without(known, stick_mask_range(0, first));
    if (!stick_mask_empty(known) && stick_mask_empty(behind)) return true;
    uint64_t at = (uint64_t)stick * SPYRE_STICK_BYTES + first;
    core_fault(a->run, a->step->instruction, at,
               "never written: operand %u reads byte %llu of LX, %s", a->operand,
               (unsigned long long)at,
               stick_mask_empty(known) ? "in a stick that nothing has written"
                                       : "which nothing has written, before bytes that are");
    return false;
}

static bool check_stick(const access *a, uint64_t stick, stick_mask bytes)
{
    checker *c = a->run->owner->check;
    uint64_t key = stick;
    if (a->in_lx) {
        if (!check_written(a, (uint32_t)stick, bytes)) return false;
        key = LX_KEY + (uint64_t)a->run->core * LX_STICKS + stick;
    }
    const access_record *other;
    access_record mine = {
        .bytes = bytes, .instruction = a->step->instruction, .who = a->who, .writes = a->writes};
    const bool has_memory = races_add(c->races, key, mine, &other);
    if (other) report_race(a, stick, bytes, other);
    return !other && remembered(a->run, a->step, has_memory);
}

// Bytes [at, at + count) of LX or of the card's memory.
static bool check_range(const access *a, uint64_t at, uint64_t count)
{
    uint64_t end = at + count;
    while (at < end) {
        uint64_t stick = at / SPYRE_STICK_BYTES, low = at % SPYRE_STICK_BYTES;
        uint64_t high = end - stick * SPYRE_STICK_BYTES;
        if (high > SPYRE_STICK_BYTES) high = SPYRE_STICK_BYTES;
        if (!check_stick(a, stick, stick_mask_range((uint32_t)low, (uint32_t)high))) return false;
        at = (stick + 1) * SPYRE_STICK_BYTES;
    }
    return true;
}

// --- Tiles

// Elements as an index space: dims, outermost first, and `run` contiguous bytes at each index.
typedef struct {
    uint32_t dim_count;
    int64_t extent[ISA_MAX_DIMS], stride[ISA_MAX_DIMS];
    int64_t run;
} box;

static void add_dim(box *b, int64_t extent, int64_t stride)
{
    if (extent == 1 || stride == 0) return;
    b->extent[b->dim_count] = extent;
    b->stride[b->dim_count++] = stride;
}

// Takes inner dims that lie without gaps into the run.
static void widen_run(box *b)
{
    while (b->dim_count && b->stride[b->dim_count - 1] == b->run)
        b->run *= b->extent[--b->dim_count];
}

static bool check_box(const access *a, uint64_t at, const box *b)
{
    int64_t index[ISA_MAX_DIMS] = {0};
    odometer_place run = {b->stride, 0};
    do if (!check_range(a, at + (uint64_t)run.at, (uint64_t)b->run)) return false;
    while (odometer_next(b->dim_count, b->extent, index, &run, 1));
    return true;
}

static bool check_plain(const access *a, uint64_t at)
{
    const plan_tile *tile = a->step->tile;
    box b = {.run = spyre_format_bytes(tile->instruction->operand[a->operand].format)};
    for (uint32_t d = 0; d < tile->dim_count; d++)
        add_dim(&b, tile->extent[d], tile->stride[a->operand][d]);
    widen_run(&b);
    return check_box(a, at, &b);
}

// Operand 1 of a MATMUL has k in sticks, the last of which may be short.
static bool check_matmul(const access *a, uint64_t at)
{
    const isa_instruction *i = a->step->tile->instruction;
    const isa_operand *operand = &i->operand[a->operand];
    int64_t element = spyre_format_bytes(operand->format), lanes = matmul_lanes(i);
    int64_t k = i->extent[2], rest = k % lanes;
    box b = {.run = lanes * element};
    if (a->operand != 1) {
        add_dim(&b, a->operand == 0 ? i->extent[0] : k, operand->stride[a->operand == 0 ? 0 : 2]);
        add_dim(&b, i->extent[1], operand->stride[1]);
        widen_run(&b);
        return check_box(a, at, &b);
    }
    box last = {.run = rest * element};
    add_dim(&b, i->extent[0], operand->stride[0]);
    add_dim(&last, i->extent[0], operand->stride[0]);
    add_dim(&b, k / lanes, operand->stride[2]);
    if (k >= lanes && !check_box(a, at, &b)) return false;
    return !rest || check_box(a, at + (uint64_t)(k / lanes * operand->stride[2]), &last);
}

// The operand lies in the rows that operand 2 names.
static bool check_rows(const access *a, uint64_t at, const uint8_t *rows)
{
    const plan_tile *tile = a->step->tile;
    const isa_instruction *i = tile->instruction;
    int64_t index[ISA_MAX_DIMS] = {0};
    odometer_place place[] = {{tile->stride[a->operand], 0}, {tile->stride[2], 0}};
    uint64_t bytes = spyre_format_bytes(i->operand[a->operand].format);
    do {
        int32_t row;
        memcpy(&row, rows + place[1].at, sizeof row);
        uint64_t offset = (uint64_t)(place[0].at + isa_row_offset(i, row));
        if (!check_range(a, at + offset, bytes)) return false;
    } while (odometer_next(tile->dim_count, tile->extent, index, place, 2));
    return true;
}

static bool check_alignment(const access *a, uint64_t at)
{
    const plan_tile *tile = a->step->tile;
    const isa_operand *operand = &tile->instruction->operand[a->operand];
    uint64_t element = spyre_format_bytes(operand->format);
    bool good = at % element == 0;
    for (uint32_t d = 0; d < tile->instruction->dim_count; d++)
        good = good && (uint64_t)operand->stride[d] % element == 0;
    if (a->operand == isa_row_operand(tile->instruction->opcode))
        good = good && (uint64_t)tile->instruction->row_stride % element == 0;
    if (good) return true;
    core_fault(a->run, a->step->instruction, at,
               "misaligned: elements of operand %u have %llu bytes and lie at no multiple of it",
               a->operand, (unsigned long long)element);
    return false;
}

static bool check_operand(const access *a, uint8_t *const *address)
{
    const isa_instruction *i = a->step->tile->instruction;
    const uint8_t *base = a->in_lx ? a->run->lx : a->run->owner->memory;
    uint64_t at = (uint64_t)(address[a->operand] - base);
    if (!check_alignment(a, at)) return false;
    if (i->opcode == ISA_MATMUL) return check_matmul(a, at);
    if (a->operand == isa_row_operand(i->opcode)) return check_rows(a, at, address[2]);
    return check_plain(a, at);
}

bool check_tile(core_run *run, const plan_step *step, uint8_t *const *address)
{
    const isa_instruction *i = step->tile->instruction;
    // What is read first, so that the bytes an instruction itself writes do not count for it.
    for (uint32_t o = i->operand_count; o-- > 0;) {
        if (isa_is_number(i->opcode, o)) continue;
        access a = {.run = run, .step = step, .operand = o, .who = races_who(run->core, i->queue)};
        a.in_lx = i->operand[o].space == ISA_SPACE_LX;
        a.writes = isa_writes(i->opcode, o);
        a.reads = isa_reads(i->opcode, o);
        if (!check_operand(&a, address)) return false;
    }
    return true;
}
