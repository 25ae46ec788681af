// SPDX-License-Identifier: Apache-2.0
//
// The numbers of a program in one fixed order, and programs made of others by changing them: how
// one program serves tensors of many sizes. Which instructions there are, and what they are joined
// by, is not among the numbers.
#include <math.h>
#include <string.h>

#include "isa/field_counts.h"
#include "isa/corrections.h"

// What is done with each number: `visit` reads it and may replace it.
typedef struct number_walk number_walk;
struct number_walk {
    void (*visit)(number_walk *w, int64_t *number);
    uint32_t at;                        // of the present number
    int64_t *out;                       // read: of every number
    const isa_correction *corrections;  // correct: those that are left
    uint32_t left;
    const int64_t *values;
    bool unfit;                         // a value beyond its field; then corrections[-1]
};

static void visit(number_walk *w, int64_t *number)
{
    w->visit(w, number);
    w->at++;
}

static void visit_small(number_walk *w, uint32_t *number)
{
    int64_t value = *number;
    visit(w, &value);
    if (value < 0 || value > UINT32_MAX) w->unfit = true;
    else *number = (uint32_t)value;
}

static void visit_instruction(number_walk *w, isa_instruction *i)
{
    if (i->opcode == ISA_LOOP) visit_small(w, &i->count);
    if (isa_uses_rows(i->opcode)) {
        visit(w, &i->row_stride);
        visit(w, &i->row_count);
    }
    for (uint32_t d = 0; d < i->dim_count; d++) visit_small(w, &i->extent[d]);
    for (uint32_t o = 0; o < i->operand_count; o++) {
        isa_operand *operand = &i->operand[o];
        visit(w, &operand->offset);
        for (uint32_t n = 0; n < ISA_MAX_LOOPS; n++) visit(w, &operand->loop_stride[n]);
        for (uint32_t d = 0; d < i->dim_count; d++) visit(w, &operand->stride[d]);
    }
}

// A constant that is one part in a whole number is that number, so that 1/n follows from a size;
// of any other one the number, below 0, says its bits.
static int64_t number_of_constant(float constant)
{
    uint32_t bits;
    int64_t parts = constant >= 0x1p-30f ? llround(1 / (double)constant) : 0;
    if (parts && (float)(1 / (double)parts) == constant) return parts;
    memcpy(&bits, &constant, sizeof bits);
    return -1 - (int64_t)bits;
}

static bool constant_of_number(int64_t number, float *out_constant)
{
    if (number < -1 - (int64_t)UINT32_MAX) return false;
    uint32_t bits = (uint32_t)(-1 - number);
    if (number > 0) *out_constant = (float)(1 / (double)number);
    else memcpy(out_constant, &bits, sizeof bits);
    return !isnan(*out_constant) || bits == 0x7FC00000;
}

static void visit_constants(number_walk *w, isa_instruction *i)
{
    for (uint32_t c = 0; c < isa_constant_count(i); c++) {
        int64_t number = number_of_constant(i->constant[c]);
        visit(w, &number);
        if (!constant_of_number(number, &i->constant[c])) w->unfit = true;
    }
}

static void skip(number_walk *w, int64_t *number)
{
    (void)w;
    (void)number;
}

static void read(number_walk *w, int64_t *number)
{
    w->out[w->at] = *number;
}

static void correct(number_walk *w, int64_t *number)
{
    if (w->unfit || w->left == 0 || w->corrections->number != w->at) return;
    *number = w->values[w->corrections->value];
    w->corrections++;
    w->left--;
}

// Numbers before those of instructions: copies of what a program may share with others.
static void visit_tables(number_walk *w, const isa_program *program, int64_t *sizes,
                         int64_t *const *parameters)
{
    for (uint32_t a = 0; a < program->arg_count; a++) {
        int64_t size = program->arg_bytes ? program->arg_bytes[a] : 0;
        visit(w, sizes ? &sizes[a] : &size);
    }
    for (uint32_t k = 0; k < program->kernels.count; k++) {
        const isa_kernel *kernel = &program->kernels.items[k];
        for (uint32_t p = 0; p < ISA_CORES * kernel->slot_count; p++) {
            int64_t parameter = kernel->parameters[p];
            visit(w, parameters ? &parameters[k][p] : &parameter);
        }
    }
}

static void walk_constant(number_walk *w, const isa_program *program)
{
    visit_tables(w, program, NULL, NULL);
    for (uint32_t n = 0; n < program->code.count; n++) {
        isa_instruction copy = isa_copy(program->code.items[n]);
        visit_instruction(w, &copy);
    }
    for (uint32_t n = 0; n < program->code.count; n++) {
        isa_instruction copy = isa_copy(program->code.items[n]);
        visit_constants(w, &copy);
    }
}

uint32_t isa_number_count(const isa_program *program)
{
    number_walk w = {.visit = skip};
    walk_constant(&w, program);
    return w.at;
}

void isa_numbers(const isa_program *program, int64_t *out_numbers)
{
    number_walk w = {.visit = read, .out = out_numbers};
    walk_constant(&w, program);
}

// --- Form

static bool same_operand(const isa_operand *a, const isa_operand *b)
{
    return a->space == b->space && a->format == b->format && a->arg == b->arg &&
           a->slot == b->slot;
}

static bool same_instruction(const isa_instruction *a, const isa_instruction *b)
{
    bool same = a->opcode == b->opcode && a->queue == b->queue && a->op == b->op &&
                a->operand_count == b->operand_count && a->dim_count == b->dim_count &&
                a->token == b->token && (a->opcode == ISA_LOOP || a->count == b->count) &&
                a->row_lanes == b->row_lanes;
    for (uint32_t o = 0; same && o < a->operand_count; o++)
        same = same_operand(&a->operand[o], &b->operand[o]);
    return same;
}

bool isa_same_form(const isa_program *a, const isa_program *b)
{
    bool same = a->arg_count == b->arg_count && a->kernels.count == b->kernels.count &&
                a->code.count == b->code.count;
    for (uint32_t k = 0; same && k < a->kernels.count; k++) {
        const isa_kernel *one = &a->kernels.items[k], *other = &b->kernels.items[k];
        same = one->active_cores == other->active_cores && one->slot_count == other->slot_count;
    }
    for (uint32_t n = 0; same && n < a->code.count; n++)
        same = same_instruction(a->code.items[n], b->code.items[n]);
    return same;
}

// --- Correction

spyre_status isa_copy_kernels(const isa_program *program, isa_program *out,
                              int64_t ***out_parameters)
{
    int64_t **parameters = ARENA_NEW(out->memory, int64_t *, program->kernels.count);
    TRY_ALLOC(parameters);
    for (uint32_t k = 0; k < program->kernels.count; k++) {
        isa_kernel kernel = program->kernels.items[k];
        size_t count = (size_t)ISA_CORES * kernel.slot_count;
        parameters[k] = ARENA_NEW(out->memory, int64_t, count);
        TRY_ALLOC(parameters[k]);
        if (count) memcpy(parameters[k], kernel.parameters, count * sizeof *parameters[k]);
        kernel.parameters = parameters[k];
        TRY(VEC_PUSH(out->memory, &out->kernels, kernel));
    }
    *out_parameters = parameters;
    return NULL;
}

spyre_status isa_correct(arena *memory, const isa_program *program, const int64_t *values,
                         isa_program **out_program)
{
    isa_program *out = isa_program_create(memory);
    TRY_ALLOC(out);
    int64_t *sizes = ARENA_NEW(memory, int64_t, program->arg_count);
    int64_t **parameters;
    TRY_ALLOC(sizes);
    for (uint32_t a = 0; program->arg_bytes && a < program->arg_count; a++)
        sizes[a] = program->arg_bytes[a];
    out->arg_count = program->arg_count;
    out->arg_bytes = sizes;
    TRY(isa_copy_kernels(program, out, &parameters));
    number_walk w = {.visit = correct, .corrections = program->corrections.items,
                     .left = program->corrections.count, .values = values};
    visit_tables(&w, out, sizes, parameters);
    TRY(VEC_ROOM(memory, &out->code, program->code.count ? program->code.count : 1));
    for (uint32_t n = 0; n < program->code.count; n++) {
        isa_instruction i = isa_copy(program->code.items[n]);
        visit_instruction(&w, &i);
        if (w.unfit)
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "program: instruction %u: a corrected value beyond 32 bits", n);
        TRY(isa_append(out, &i));
    }
    for (uint32_t n = 0; n < out->code.count; n++) {
        visit_constants(&w, out->code.items[n]);
        if (w.unfit)
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "program: instruction %u: a corrected value is no constant", n);
    }
    *out_program = out;
    return NULL;
}
