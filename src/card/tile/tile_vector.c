// SPDX-License-Identifier: Apache-2.0
//
// VECTOR. Tiles whose runs are dense or repeat one element, in the formats of card/simd/simd.h,
// go through the vector loops; the rest in chunks through fp32 or fp64 registers in memory
// (card/simd/lanes.h).
#include <string.h>

#include "card/tile/runs.h"
#include "card/machine/exec_integers.h"
#include "card/simd/lanes.h"
#include "card/simd/narrow_formula.h"
#include "card/simd/simd.h"

// --- Vector loops

// Runs of the tile that vector loops can take: dense, or of inputs one element again and again.
static bool simd_shaped(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        int64_t stride = run_stride(tile, o);
        if (stride == spyre_format_bytes(i->operand[o].format) || run_length(tile) == 1) continue;
        if (o == 0 || stride != 0) return false;
    }
    return true;
}

enum { LEAST_ROWS = 8 };

static simd_rows simd_of(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    // A plane takes some time of its own, which few rows do not make up for.
    int64_t inner = outer_extent(tile, 1);
    bool turns = inner < LEAST_ROWS && inner < outer_extent(tile, 2);
    uint32_t row = turns ? 2 : 1, plane = turns ? 1 : 2;
    simd_rows s = {.planes = (size_t)outer_extent(tile, plane),
                   .rows = (size_t)outer_extent(tile, row),
                   .count = (size_t)run_length(tile)};
    s.inputs = i->operand_count - 1u;
    s.constant = i->constant;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        s.operand[o].plane_stride = outer_stride(tile, plane, o);
        s.operand[o].row_stride = outer_stride(tile, row, o);
        simd_reads(i->operand[o].format, &s.operand[o].format);
        s.operand[o].repeats = run_stride(tile, o) == 0;
    }
    return s;
}

static void run_simd(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (void)scratch;
    simd_rows s = simd_of(tile);
    runs r;
    first_run(&r, tile, address, 3);
    do {
        for (uint32_t o = 0; o <= s.inputs; o++) s.operand[o].at = r.at[o];
        tile->simd(&s);
    } while (next_run(&r));
}

// --- Chunks

static void look_up(const plan_tile *tile, uint8_t *const *address, const uint16_t *table)
{
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1), count = run_length(tile);
    runs r;
    first_run(&r, tile, address, 1);
    bool dense = to == 2 && from == 2;
    do {
        if (dense) simd_in_use()->lookup(r.at[0], r.at[1], table, (size_t)count);
        for (int64_t n = 0; n < count && !dense; n++) {
            uint16_t code;
            memcpy(&code, r.at[1] + n * from, sizeof code);
            memcpy(r.at[0] + n * to, &table[code], sizeof code);
        }
    } while (next_run(&r));
}

static void run_table(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    const isa_instruction *i = tile->instruction;
    const uint16_t *table = opfunc_dl16_table_of(i->op, i->constant);
    if (table) look_up(tile, address, table);
    else exact_run(tile, address, scratch);
}

// How lanes are computed. IN_F32, BY_FORMULA (opfunc_apply_f32) and NARROW (narrow_formula) load
// fp32.
typedef enum { IN_F32, BY_FORMULA, NARROW, IN_F64 } lanes_way;

typedef union {
    float narrow[LANES_CHUNK];
    double wide[LANES_CHUNK];
} lanes;

// layernormnorm without weight and bias multiplies by 1 and adds 0.
static void set_neutral(lanes *l, uint32_t operand, lanes_way way)
{
    float value = operand == OPFUNC_MAX_INPUTS ? 0.0f : 1.0f;
    for (size_t n = 0; n < LANES_CHUNK; n++) {
        if (way == IN_F64) l->wide[n] = (double)value;
        else l->narrow[n] = value;
    }
}

static void load_lanes(lanes *l, lanes_way way, const uint8_t *from, int64_t stride,
                       spyre_format format, size_t count)
{
    if (way == IN_F64) lanes_load_f64(l->wide, from, stride, format, count);
    else lanes_load_f32(l->narrow, from, stride, format, count);
}

static void apply_each(const isa_instruction *i, double *result, const double *const *in,
                       size_t count)
{
    uint32_t inputs = i->operand_count - 1u;
    if (opfunc_has_formula(i->op)) {
        opfunc_apply_lanes(i->op, result, in, i->constant, count);
        return;
    }
    for (size_t n = 0; n < count; n++) {
        double value[OPFUNC_MAX_INPUTS];
        for (uint32_t o = 0; o < inputs; o++) value[o] = in[o][n];
        result[n] = opfunc_apply(i->op, value, inputs, i->constant);
    }
}

static void apply_wide(const isa_instruction *i, double *result, const lanes *l, size_t count)
{
    const double *in[] = {l[0].wide, l[1].wide, l[2].wide, l[3].wide, l[4].wide};
    lanes_f64_fn *function = lanes_f64_function(i->op);
    if (function) function(result, in, i->constant, count);
    else apply_each(i, result, in, count);
}

static void apply_narrow(const isa_instruction *i, lanes_way way, float *result, const lanes *l,
                         size_t count)
{
    const float *in[] = {l[0].narrow, l[1].narrow, l[2].narrow, l[3].narrow, l[4].narrow};
    if (way == BY_FORMULA) opfunc_apply_f32(i->op, result, in, i->constant, count);
    else lanes_f32_function(i->op)(result, in, i->constant, count);
}

static void store_codes(uint8_t *to, int64_t stride, const uint16_t *codes, size_t count)
{
    if (stride == sizeof *codes) memcpy(to, codes, count * sizeof *codes);
    for (size_t n = 0; stride != sizeof *codes && n < count; n++)
        memcpy(to + (int64_t)n * stride, &codes[n], sizeof *codes);
}

static void apply_lanes(const isa_instruction *i, lanes_way way, uint8_t *to, int64_t stride,
                        const lanes *l, size_t count)
{
    lanes result;
    uint16_t codes[LANES_CHUNK];
    if (way == NARROW) {
        narrow_formula(i->op, codes, l[0].narrow, l[1].narrow, count);
        store_codes(to, stride, codes, count);
    } else if (way == IN_F64) {
        apply_wide(i, result.wide, l, count);
        lanes_store_f64(to, stride, i->operand[0].format, result.wide, count);
    } else {
        apply_narrow(i, way, result.narrow, l, count);
        lanes_store_f32(to, stride, i->operand[0].format, result.narrow, count);
    }
}

static void run_chunks(const plan_tile *tile, uint8_t *const *address, lanes_way way)
{
    const isa_instruction *i = tile->instruction;
    lanes l[OPFUNC_MAX_INPUTS];
    bool optional = i->op == OPFUNC_LAYERNORMNORM;
    for (uint32_t o = i->operand_count; optional && o <= OPFUNC_MAX_INPUTS; o++)
        set_neutral(&l[o - 1], o, way);
    runs r;
    first_run(&r, tile, address, 1);
    do {
        for (int64_t done = 0; done < run_length(tile); done += LANES_CHUNK) {
            size_t count = chunk_length(run_length(tile) - done);
            for (uint32_t o = 1; o < i->operand_count; o++) {
                int64_t stride = run_stride(tile, o);
                load_lanes(&l[o - 1], way, r.at[o] + done * stride, stride,
                           i->operand[o].format, count);
            }
            int64_t stride = run_stride(tile, 0);
            apply_lanes(i, way, r.at[0] + done * stride, stride, l, count);
        }
    } while (next_run(&r));
}

#define RUN_VECTOR(name, way)                                                               \
    static void name(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch) \
    {                                                                                       \
        (void)scratch;                                                                      \
        run_chunks(tile, address, way);                                                     \
    }
RUN_VECTOR(run_vector_f32, IN_F32)
RUN_VECTOR(run_vector_formula, BY_FORMULA)
RUN_VECTOR(run_vector_narrow, NARROW)
RUN_VECTOR(run_vector_f64, IN_F64)

// Of integers of one width, too, which wrap.
static bool copies_bits(const isa_instruction *i)
{
    spyre_format to = i->operand[0].format, from = i->operand[1].format;
    bool same_width = spyre_format_bytes(to) == spyre_format_bytes(from);
    return opfunc_describe(i->op)->kind == OPFUNC_KIND_COPY &&
           (to == from || (exec_integer_wraps(i) && same_width));
}

// Tables of UNARY opfuncs are built when the first tile runs: loading does not wait for that.
static bool has_table(const isa_instruction *i)
{
    return opfunc_describe(i->op)->kind == OPFUNC_KIND_UNARY ||
           opfunc_dl16_table_of(i->op, i->constant);
}

static void list_inputs(const isa_instruction *i, spyre_format *out)
{
    for (uint32_t o = 1; o < i->operand_count; o++) out[o - 1] = i->operand[o].format;
}

static bool looks_up(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    spyre_format inputs[OPFUNC_MAX_INPUTS], result = i->operand[0].format;
    list_inputs(i, inputs);
    return result == SPYRE_FORMAT_SEN169_FP16 && inputs[0] == SPYRE_FORMAT_SEN169_FP16 &&
           !tile_codes(tile).run && opfunc_has_table(i->op) &&
           !lanes_f32_suffices(i->op, result, inputs, i->operand_count - 1u);
}

// Whether opfunc_apply_f32 has the elements, and rounds them as the result is rounded.
static bool has_f32_formula(const isa_instruction *i)
{
    bool fits = i->operand[0].format == SPYRE_FORMAT_IEEE_FP32 && opfunc_has_formula(i->op) &&
                !opfunc_makes_pairs(i->op);
    for (uint32_t o = 1; fits && o < i->operand_count; o++)
        fits = lanes_fits_f32(i->operand[o].format);
    return fits;
}

static bool is_narrow(const isa_instruction *i)
{
    bool narrow = i->operand_count == 3 && narrow_has_formula(i->op);
    for (uint32_t o = 0; narrow && o < i->operand_count; o++)
        narrow = i->operand[o].format == SPYRE_FORMAT_SEN169_FP16;
    return narrow;
}

static plan_run *choose_lanes(const isa_instruction *i, bool suffices)
{
    if (suffices && lanes_f32_function(i->op)) return run_vector_f32;
    if (is_narrow(i)) return run_vector_narrow;
    return has_f32_formula(i) && !lanes_f64_function(i->op) ? run_vector_formula : run_vector_f64;
}

static plan_executor choose_computed(plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    const plan_executor codes = tile_codes(tile);
    spyre_format inputs[OPFUNC_MAX_INPUTS], result = i->operand[0].format;
    if (codes.run) return codes;
    list_inputs(i, inputs);
    tile->simd = simd_find(i->op, result, inputs, i->operand_count - 1u);
    const bool suffices = lanes_f32_suffices(i->op, result, inputs, i->operand_count - 1u);
    const bool simd = tile->simd && simd_shaped(tile);
    return (plan_executor){simd ? run_simd : choose_lanes(i, suffices), NEEDS_INDEPENDENT};
}

// --- Parameters that are operands

static bool stands(const plan_tile *tile, uint32_t operand)
{
    for (uint32_t d = 0; d < tile->dim_count; d++)
        if (tile->stride[operand][d] != 0) return false;
    return lanes_fits_f32(tile->instruction->operand[operand].format);
}

static bool parameters_stand(const plan_tile *tile)
{
    for (uint32_t o = 2; o < tile->instruction->operand_count; o++)
        if (!stands(tile, o)) return false;
    return true;
}

static isa_instruction with_constants(const isa_instruction *i, uint8_t *const *address)
{
    isa_instruction carries = isa_copy(i);
    carries.operand_count = 2;
    for (uint32_t o = 2; o < i->operand_count; o++)
        carries.constant[o - 2] = (float)element_load(address[o], i->operand[o].format);
    return carries;
}

static uint64_t element_count(const plan_tile *tile)
{
    uint64_t count = 1;
    for (uint32_t d = 0; d < tile->dim_count; d++) count *= (uint64_t)tile->extent[d];
    return count;
}

static void run_with_constants(const plan_tile *tile, uint8_t *const *address,
                               plan_scratch *scratch)
{
    isa_instruction carries = with_constants(tile->instruction, address);
    plan_tile same = *tile;
    same.instruction = &carries;
    const uint16_t *codes = NULL;
    if (looks_up(&same))
        codes = opfunc_dl16_table_take(carries.op, carries.constant, element_count(tile));
    if (codes) {
        look_up(&same, address, codes);
        opfunc_dl16_table_give(codes);
        return;
    }
    same.executor = choose_computed(&same);
    tile_run(&same, address, scratch);
}

plan_executor tile_vector(plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    if (copies_bits(i)) return tile_copy(tile);
    const plan_executor integers = tile_integers(tile);
    if (integers.run) return integers;
    if (opfunc_takes_parameters(i->op, i->operand_count - 1u))
        return (plan_executor){parameters_stand(tile) ? run_with_constants : exact_run,
                               NEEDS_INDEPENDENT};
    const bool found = looks_up(tile) && has_table(i);
    return found ? (plan_executor){run_table, NEEDS_INDEPENDENT} : choose_computed(tile);
}
