// SPDX-License-Identifier: Apache-2.0
//
// One walk over the code with a stack of open loops. Everything that the encoder, the printer and
// the card take for granted is checked here, so that a program from anywhere is either refused or
// safe to translate; addresses in memory depend on the launch and are checked there.
#include <math.h>

#include "isa/field_counts.h"
#include "isa/corrections.h"
#include "tensor/accumulate.h"
#include "tensor/format.h"
#include "tensor/numeric.h"
#include "tensor/ranking.h"
#include "tensor/running_value.h"

typedef struct {
    const isa_program *program;
    uint32_t depth; // open loops
    uint32_t iterations[ISA_MAX_LOOPS];
    uint32_t kernel_depth;    // loops open at the kernel's start
    const isa_kernel *kernel; // null outside
    bool halted;
} walk;

#define BROKEN(...) return status_new(SPYRE_INVALID_ARGUMENT, __VA_ARGS__)

static bool is_reachable(int64_t bytes)
{
    return bytes >= -ISA_MOST_REACH && bytes <= ISA_MOST_REACH;
}

// Adds count * stride to the side of the span that it moves; false when that is beyond reach.
static bool widen(int64_t *low, int64_t *high, int64_t count, int64_t stride)
{
    int64_t reach;
    if (__builtin_mul_overflow(count, stride, &reach)) return false;
    int64_t *side = reach < 0 ? low : high;
    return !__builtin_add_overflow(*side, reach, side) && is_reachable(*side);
}

// The bytes that an operand touches over all iterations, relative to its base without the offset.
static spyre_status span(const walk *w, const isa_instruction *i, uint32_t o, int64_t *low,
                         int64_t *high)
{
    const isa_operand *operand = &i->operand[o];
    int64_t element = (int64_t)spyre_format_bytes(operand->format);
    bool fits = true;
    *low = 0;
    *high = element;
    for (uint32_t n = 0; n < w->depth; n++)
        fits = fits && widen(low, high, (int64_t)w->iterations[n] - 1, operand->loop_stride[n]);
    for (uint32_t d = 0; d < i->dim_count; d++) {
        int64_t steps = (int64_t)i->extent[d] - 1;
        if (i->opcode == ISA_MATMUL && o == 1 && d == 2) {
            int64_t lanes = (int64_t)spyre_format_elements_per_stick(operand->format);
            int64_t last_lane = steps < lanes ? steps : lanes - 1;
            fits = fits && widen(low, high, last_lane, element);
            steps /= lanes;
        }
        fits = fits && widen(low, high, steps, operand->stride[d]);
    }
    if (i->opcode == ISA_MATMUL && o != 1) {
        int64_t lanes = (int64_t)spyre_format_elements_per_stick(i->operand[1].format);
        fits = fits && widen(low, high, lanes - 1, element);
    }
    if (!fits) BROKEN("strides reach beyond 2^56 bytes");
    return NULL;
}

// For messages only.
static long long wrapping_sum(int64_t a, int64_t b)
{
    return (long long)((uint64_t)a + (uint64_t)b);
}

static spyre_status check_place(const walk *w, const isa_instruction *i, uint32_t o)
{
    const isa_operand *operand = &i->operand[o];
    int64_t low, high;
    TRY(span(w, i, o, &low, &high));
    if (!is_reachable(operand->offset))
        BROKEN("offset %lld is beyond 2^56 bytes", (long long)operand->offset);
    if (operand->space == ISA_SPACE_LX) {
        if (operand->arg || operand->slot) BROKEN("arg and slot are for memory operands");
        if (operand->offset < 0 || operand->offset > ISA_LX_BYTES || low < -operand->offset ||
            high > ISA_LX_BYTES - operand->offset)
            BROKEN("bytes [%lld, %lld) leave the %d bytes of LX",
                   wrapping_sum(operand->offset, low), wrapping_sum(operand->offset, high),
                   ISA_LX_BYTES);
        return NULL;
    }
    bool counts = operand->space == ISA_SPACE_NUMBER;
    if (counts && operand->arg) BROKEN("arg is for memory operands");
    if (!counts && operand->arg >= w->program->arg_count)
        BROKEN("argument %u of %u", operand->arg, w->program->arg_count);
    if (operand->slot != ISA_NO_SLOT && operand->slot >= w->kernel->slot_count)
        BROKEN("parameter slot %u of %u", operand->slot, w->kernel->slot_count);
    return NULL;
}

static spyre_status check_format(const isa_instruction *i, uint32_t o)
{
    spyre_format format = i->operand[o].format;
    if ((int)format < 0 || format >= SPYRE_FORMAT_COUNT || spyre_format_bytes(format) == 0)
        BROKEN("format %d has no whole bytes an element", (int)format);
    bool updates = isa_writes(i->opcode, o) && isa_reads(i->opcode, o);
    bool integers = i->opcode == ISA_MATMUL ? i->operand[1].format == SPYRE_FORMAT_SENINT8
                                            : isa_accumulates_integers(i);
    spyre_format sum = integers ? SPYRE_FORMAT_IEEE_INT32 : SPYRE_FORMAT_IEEE_FP32;
    if (i->opcode == ISA_ACCUMULATE && o == 1 &&
        !accumulate_takes(i->op, i->operand[0].format, format))
        BROKEN("%s of %s into %s", opfunc_describe(i->op)->name, spyre_format_name(format),
               spyre_format_name(i->operand[0].format));
    bool sums = i->opcode != ISA_RANK && i->opcode != ISA_SCAN && i->opcode != ISA_ACCUMULATE;
    if (updates && sums && format != sum)
        BROKEN("an accumulator is %s, not %s", spyre_format_name(sum), spyre_format_name(format));
    bool entries = (i->opcode == ISA_RANK && o % 3 == 0) || (i->opcode == ISA_RANKED && o == 1);
    if (entries && format != SPYRE_FORMAT_IEEE_INT64)
        BROKEN("entries of a ranking are IEEE_INT64, not %s", spyre_format_name(format));
    if (i->opcode == ISA_RANK && o == 1 && !ranking_takes(format))
        BROKEN("%s cannot be ranked", spyre_format_name(format));
    if (i->opcode == ISA_SCAN && o == 1 && format != SPYRE_FORMAT_IEEE_INT64)
        BROKEN("running values are IEEE_INT64, not %s", spyre_format_name(format));
    if (i->opcode == ISA_SCAN && o == 2 && !running_takes(i->op, format, i->operand[0].format))
        BROKEN("%s from %s to %s", opfunc_describe(i->op)->name, spyre_format_name(format),
               spyre_format_name(i->operand[0].format));
    bool position = (i->opcode == ISA_RANK && o == 2) || (i->opcode == ISA_SCAN && o == 3);
    if (position && format != SPYRE_FORMAT_IEEE_INT32)
        BROKEN("a position is IEEE_INT32, not %s", spyre_format_name(format));
    if (isa_is_number(i->opcode, o) && format != SPYRE_FORMAT_IEEE_INT32)
        BROKEN("numbers are IEEE_INT32, not %s", spyre_format_name(format));
    bool by_row = isa_row_operand(i->opcode) != ISA_NO_OPERAND;
    bool moves_bits = i->opcode == ISA_LOAD || i->opcode == ISA_STORE ||
                      (by_row && !isa_reads(i->opcode, 0));
    if (!moves_bits && format_class_of(format) == FORMAT_NONE)
        BROKEN("elements of %s can be moved only", spyre_format_name(format));
    if (moves_bits && o == 1 && format != i->operand[0].format)
        BROKEN("format %s differs from operand 0's %s; only bits move", spyre_format_name(format),
               spyre_format_name(i->operand[0].format));
    if (i->opcode == ISA_MATMUL && o == 2 && format != i->operand[1].format)
        BROKEN("format %s differs from operand 1's %s", spyre_format_name(format),
               spyre_format_name(i->operand[1].format));
    if (o == isa_row_operand(i->opcode) &&
        i->row_lanes && i->row_lanes * (int64_t)spyre_format_bytes(format) > i->row_stride)
        BROKEN("%u rows a stick, in sticks that lie %lld bytes apart", i->row_lanes,
               (long long)i->row_stride);
    if (by_row && o == 2 && spyre_format_bytes(format) != 4)
        BROKEN("row numbers have four bytes, %s has not", spyre_format_name(format));
    return NULL;
}

static spyre_status check_strides(const walk *w, const isa_instruction *i, uint32_t o)
{
    const isa_operand *operand = &i->operand[o];
    bool reduces = isa_accumulates(i->opcode);
    for (uint32_t d = 0; d < ISA_MAX_DIMS; d++) {
        if (!is_reachable(operand->stride[d]))
            BROKEN("stride %u is beyond 2^56 bytes", d);
        if (d >= i->dim_count && operand->stride[d])
            BROKEN("stride %u beyond the %u dims", d, i->dim_count);
        bool row_moves = o == isa_row_operand(i->opcode) && i->operand[2].stride[d];
        bool scans = i->opcode == ISA_SCAN && o == 1;
        if (d < i->dim_count && i->extent[d] > 1 && operand->stride[d] == 0 && !reduces &&
            !row_moves && !scans && isa_writes(i->opcode, o))
            BROKEN("stride %u is 0: the operand is written", d);
    }
    if (i->opcode == ISA_MATMUL) {
        static const uint8_t unmoved[3] = {2, 1, 0};
        if (operand->stride[unmoved[o]])
            BROKEN("stride %u is %lld; a matmul does not move it there", unmoved[o],
                   (long long)operand->stride[unmoved[o]]);
    }
    for (uint32_t d = 0; i->opcode == ISA_RANK && d < i->dim_count; d++) {
        if (i->extent[d] == 1) continue;
        if (o == 0 && d == 0 && operand->stride[d] == 0) BROKEN("stride 0 is 0: ranks are apart");
        bool counts = d == 0 || i->operand[0].stride[d] == 0;
        if (((o == 1 && d == 0) || o == 2 || (o == 3 && counts)) && operand->stride[d])
            BROKEN("stride %u is %lld, must be 0", d, (long long)operand->stride[d]);
    }
    for (uint32_t d = 0; i->opcode == ISA_SCAN && o == 3 && d < i->dim_count; d++)
        if (operand->stride[d])
            BROKEN("stride %u is %lld, must be 0", d, (long long)operand->stride[d]);
    for (uint32_t n = 0; n < ISA_MAX_LOOPS; n++)
        if (!is_reachable(operand->loop_stride[n]))
            BROKEN("loop stride %u is beyond 2^56 bytes", n);
    for (uint32_t n = w->depth; n < ISA_MAX_LOOPS; n++)
        if (operand->loop_stride[n]) BROKEN("loop stride %u inside %u loops", n, w->depth);
    return NULL;
}

static spyre_status check_operand(const walk *w, const isa_instruction *i, uint32_t o)
{
    const isa_operand *operand = &i->operand[o];
    static const char *const spaces[] = {"in LX", "in memory", "a number"};
    isa_space wanted = isa_space_of(i->opcode, o);
    if (operand->space != wanted) BROKEN("must be %s", spaces[wanted]);
    TRY(check_format(i, o));
    TRY(check_strides(w, i, o));
    return check_place(w, i, o);
}

static spyre_status check_op(const isa_instruction *i)
{
    if (!isa_uses_op(i->opcode)) {
        if (i->op != 0) BROKEN("opfunc %d is not used and must be 0", (int)i->op);
        return NULL;
    }
    if ((int)i->op < 0 || i->op >= OPFUNC_COUNT) BROKEN("opfunc %d is unknown", (int)i->op);
    const opfunc_info *info = opfunc_describe(i->op);
    bool ranks = i->opcode == ISA_RANK || i->opcode == ISA_RANKED;
    if (ranks && info->kind != OPFUNC_KIND_RANK) BROKEN("%s does not rank", info->name);
    if (ranks) return NULL;
    if (i->opcode == ISA_SCAN) {
        if (info->kind != OPFUNC_KIND_SCAN) BROKEN("%s does not scan", info->name);
        return NULL;
    }
    if (i->opcode == ISA_COUNT) {
        if (i->op != OPFUNC_IDENTITY && i->op != OPFUNC_CLIP)
            BROKEN("%s of a number; identity and clip are possible", info->name);
        return NULL;
    }
    if (i->opcode != ISA_VECTOR && !opfunc_accumulates(i->op))
        BROKEN("%s does not accumulate", info->name);
    if (i->opcode == ISA_VECTOR && (opfunc_reduces(i->op) || i->op == OPFUNC_RESTICKIFY ||
                                    info->kind == OPFUNC_KIND_MASK ||
                                    info->kind == OPFUNC_KIND_SCAN))
        BROKEN("%s does not work element by element", info->name);
    return NULL;
}

static spyre_status check_scalars(const walk *w, const isa_instruction *i)
{
    isa_use uses = isa_describe(i->opcode)->uses;
    if (uses != ISA_USES_TOKEN && uses != ISA_USES_SLOT && i->token) BROKEN("token is not used");
    if (uses == ISA_USES_TOKEN && i->token >= ISA_MAX_TOKENS)
        BROKEN("token %u of %d", i->token, ISA_MAX_TOKENS);
    if (uses != ISA_USES_COUNT && i->count) BROKEN("count is not used");
    bool by_row = isa_uses_rows(i->opcode);
    if (!by_row && (i->row_stride || i->row_count || i->row_lanes))
        BROKEN("rows are not used");
    if (by_row && i->row_count < 1)
        BROKEN("row count %lld", (long long)i->row_count);
    int64_t low = 0, high = 0;
    if (!is_reachable(i->row_stride) || !widen(&low, &high, i->row_count, i->row_stride))
        BROKEN("rows reach beyond 2^56 bytes");
    bool takes = i->opcode == ISA_VECTOR && opfunc_takes_parameters(i->op, i->operand_count - 1u);
    uint32_t constants = takes ? 0 : isa_constant_count(i);
    for (uint32_t c = 0; c < OPFUNC_MAX_PARAMETERS; c++) {
        if (isnan(i->constant[c]) && float_bits(i->constant[c]) != float_bits(NAN))
            BROKEN("constant %u is a NaN other than the positive quiet one", c);
        if (c >= constants && (i->constant[c] != 0 || signbit(i->constant[c])))
            BROKEN("constant %u is not used", c);
    }
    if (uses != ISA_USES_SLOT) return NULL;
    if (i->token >= w->kernel->slot_count)
        BROKEN("parameter slot %u of %u", i->token, w->kernel->slot_count);
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        int64_t peer = isa_parameter(w->kernel, core, i->token);
        if (isa_is_active(w->kernel, core) && (peer < 0 || peer >= ISA_CORES))
            BROKEN("core %u has peer %lld", core, (long long)peer);
    }
    return NULL;
}

static spyre_status check_tile(const isa_instruction *i)
{
    uint32_t least, most;
    isa_operand_limits(i, &least, &most);
    if (i->operand_count < least || i->operand_count > most)
        BROKEN("%u operands, expected %u to %u", i->operand_count, least, most);
    uint32_t least_dims = most > 0, most_dims = most > 0 ? ISA_MAX_DIMS : 0;
    if (i->opcode == ISA_MATMUL) least_dims = most_dims = 3;
    if (i->dim_count < least_dims || i->dim_count > most_dims)
        BROKEN("%u dims, expected %u to %u", i->dim_count, least_dims, most_dims);
    int64_t elements = 1;
    for (uint32_t d = 0; d < ISA_MAX_DIMS; d++) {
        if (d >= i->dim_count && i->extent[d])
            BROKEN("extent %u beyond the %u dims", d, i->dim_count);
        if (d >= i->dim_count) continue;
        if (i->extent[d] == 0) BROKEN("extent %u is 0", d);
        bool ranks = i->opcode == ISA_RANK && d == 0; // no operand has ranks of candidates
        if (!ranks) elements *= i->extent[d];
        if (elements > INT32_MAX) BROKEN("extents give more than 2^31 elements");
    }
    if (i->opcode == ISA_FOLD) {
        uint32_t lanes = i->extent[i->dim_count - 1];
        if (lanes & (lanes - 1)) BROKEN("%u lanes to fold are no power of two", lanes);
    }
    return NULL;
}

static spyre_status enter_kernel(walk *w, const isa_instruction *i)
{
    if (w->kernel) BROKEN("inside another kernel");
    if (i->count >= w->program->kernels.count)
        BROKEN("kernel %u of %u", i->count, w->program->kernels.count);
    w->kernel = &w->program->kernels.items[i->count];
    w->kernel_depth = w->depth;
    return NULL;
}

static spyre_status check_structure(walk *w, const isa_instruction *i)
{
    switch ((int)i->opcode) {
    case ISA_HALT:
        if (w->kernel || w->depth) BROKEN("inside a kernel or loop");
        w->halted = true;
        return NULL;
    case ISA_KERNEL: return enter_kernel(w, i);
    case ISA_END_KERNEL:
        if (!w->kernel) BROKEN("without kernel");
        if (w->depth != w->kernel_depth) BROKEN("a loop of the kernel is open");
        w->kernel = NULL;
        return NULL;
    case ISA_LOOP:
        if (w->depth == ISA_MAX_LOOPS) BROKEN("more than %d loops deep", ISA_MAX_LOOPS);
        if (i->count == 0) BROKEN("no iterations");
        w->iterations[w->depth++] = i->count;
        return NULL;
    case ISA_END_LOOP:
        if (w->depth == (w->kernel ? w->kernel_depth : 0)) BROKEN("without loop");
        w->depth--;
        return NULL;
    default:
        if (!w->kernel) BROKEN("outside a kernel");
        return NULL;
    }
}

static spyre_status check_instruction(walk *w, const isa_instruction *i)
{
    isa_queue queue = isa_describe(i->opcode)->queue;
    if (queue == ISA_QUEUE_ANY) {
        if (i->queue == ISA_QUEUE_SEQ || (int)i->queue < 0 || i->queue >= ISA_QUEUE_COUNT)
            BROKEN("queue %d cannot take tokens", (int)i->queue);
    } else if (i->queue != queue) {
        BROKEN("belongs to queue %s", isa_queue_name(queue));
    }
    TRY(check_structure(w, i));
    TRY(check_op(i));
    TRY(check_tile(i));
    TRY(check_scalars(w, i));
    for (uint32_t o = 0; o < i->operand_count; o++)
        TRY(status_at(check_operand(w, i, o), "operand %u", o));
    return NULL;
}

static spyre_status check_kernel(const isa_kernel *kernel, uint32_t number)
{
    if (kernel->slot_count >= ISA_NO_SLOT || (kernel->slot_count && !kernel->parameters) ||
        !kernel->name || !kernel->location)
        BROKEN("kernel %u: slots without parameters, or no name or location", number);
    for (size_t n = 0; n < (size_t)ISA_CORES * kernel->slot_count; n++)
        if (!is_reachable(kernel->parameters[n]))
            BROKEN("kernel %u: parameter %lld of core %zu is beyond 2^56 bytes", number,
                   (long long)kernel->parameters[n], n / kernel->slot_count);
    return NULL;
}

static spyre_status check_corrections(const isa_program *program)
{
    uint32_t numbers = program->corrections.count ? isa_number_count(program) : 0;
    if (program->value_count > UINT16_MAX) BROKEN("%u values", program->value_count);
    for (uint32_t c = 0; c < program->corrections.count; c++) {
        const isa_correction *correction = &program->corrections.items[c];
        bool ascends = c == 0 || correction[-1].number < correction->number;
        if (correction->number >= numbers || !ascends)
            BROKEN("correction %u: number %u, of %u in ascending order", c, correction->number,
                   numbers);
        if (correction->value >= program->value_count)
            BROKEN("correction %u: value %u of %u", c, correction->value, program->value_count);
    }
    return NULL;
}

spyre_status isa_verify(const isa_program *program)
{
    walk w = {.program = program};
    for (uint32_t k = 0; k < program->kernels.count; k++)
        TRY(check_kernel(&program->kernels.items[k], k));
    if (program->arg_count > UINT16_MAX) BROKEN("%u arguments", program->arg_count);
    for (uint32_t a = 0; a < program->arg_count && program->arg_bytes; a++)
        if (program->arg_bytes[a] < 0)
            BROKEN("argument %u has %lld bytes", a, (long long)program->arg_bytes[a]);
    for (uint32_t n = 0; n < program->code.count; n++) {
        const isa_instruction *i = program->code.items[n];
        if (w.halted) BROKEN("instruction %u: behind halt", n);
        if ((int)i->opcode < 0 || i->opcode >= ISA_OPCODE_COUNT)
            BROKEN("instruction %u: opcode %d is unknown", n, (int)i->opcode);
        TRY(status_at(check_instruction(&w, i), "instruction %u %s", n,
                      isa_describe(i->opcode)->mnemonic));
    }
    if (!w.halted) BROKEN("the program has no halt at its end");
    return check_corrections(program);
}
