// SPDX-License-Identifier: Apache-2.0
//
// What each opfunc makes of infinities, zeros, NaN and the ends of a format: one step of a bundle,
// on the card in both modes and in the reference interpreter, which must agree. The results are the
// tables at the end of docs/special-values.md (SPYRE_BLESS=1 rewrites them).
#include "base/file.h"
#include "unit/back/differential_case.h"

enum { CASES = 10 };
#define PAGE SPYRE_TESTS_DIR "/../docs/special-values.md"
#define BEGIN "<!-- by opfunc: tests/unit/back/special_values_test.c -->\n"

typedef double pair[2];

// The last finite number of the format in which x and y are stored stands for MOST.
#define MOST 1e300
#define INF (double)INFINITY
#define NOT_A_NUMBER (double)NAN
static const pair SINGLE[CASES] = {{INF}, {-INF}, {0}, {-0.0}, {MOST}, {-MOST}, {-1},
                                   {NOT_A_NUMBER}};
static const pair PAIRS[CASES] = {{INF, -INF}, {INF, INF}, {INF, 0}, {1, INF}, {1, 0}, {1, -0.0},
                                  {-0.0, -0.0}, {MOST, MOST}, {NOT_A_NUMBER, 1},
                                  {1, NOT_A_NUMBER}};
enum { SINGLE_COUNT = 8, PAIR_COUNT = 10 };

// How the two numbers of a case lie in an input: one operand each, in turns along its row, or in
// turns from row to row.
typedef enum { BY_OPERAND, ALONG_ROW, BY_ROW } arrangement;

static const struct {
    opfunc_kind kind;
    arrangement how;
} KINDS[] = {
    {OPFUNC_KIND_UNARY, BY_OPERAND},     {OPFUNC_KIND_PARAMETRIC, BY_OPERAND},
    {OPFUNC_KIND_COPY, BY_OPERAND},      {OPFUNC_KIND_BINARY, BY_OPERAND},
    {OPFUNC_KIND_TERNARY, BY_OPERAND},   {OPFUNC_KIND_NORM, BY_OPERAND},
    {OPFUNC_KIND_REDUCTION, ALONG_ROW},  {OPFUNC_KIND_MATMUL, ALONG_ROW},
    {OPFUNC_KIND_POOL, BY_ROW},
};

static bool is_single(opfunc op)
{
    opfunc_kind kind = opfunc_describe(op)->kind;
    return kind == OPFUNC_KIND_UNARY || kind == OPFUNC_KIND_COPY ||
           (kind == OPFUNC_KIND_PARAMETRIC && !opfunc_makes_pairs(op));
}

// Copies that move bits, and what reads or makes integers alone, have no special values.
static bool has_special_values(opfunc op)
{
    opfunc_kind kind = opfunc_describe(op)->kind;
    if (kind == OPFUNC_KIND_RANK || kind == OPFUNC_KIND_MASK || kind == OPFUNC_KIND_SCAN)
        return false;
    return op != OPFUNC_SHUFFLE && op != OPFUNC_RESTICKIFY && op != OPFUNC_BATCHMATMULINT4 &&
           op != OPFUNC_BATCHMATMULINT8 && op != OPFUNC_CONV2DINT4 && op != OPFUNC_CONV2DINT8 &&
           op != OPFUNC_INT4LOW && op != OPFUNC_INT4HIGH && op != OPFUNC_BITAND &&
           op != OPFUNC_BITOR && op != OPFUNC_BITXOR && op != OPFUNC_SHIFTLEFT &&
           op != OPFUNC_SHIFTRIGHT && op != OPFUNC_JOININDEX;
}

static arrangement arrangement_of(opfunc op)
{
    if (op == OPFUNC_LAYERNORMSCALE) return ALONG_ROW;
    for (size_t n = 0; n < sizeof KINDS / sizeof *KINDS; n++)
        if (KINDS[n].kind == opfunc_describe(op)->kind) return KINDS[n].how;
    fail_msg("no arrangement for %s", opfunc_describe(op)->name);
    return BY_OPERAND;
}

// ---- the step

static void give(trial *t, bundle_step *step, spyre_format format, const char *order,
                 const char *absent)
{
    const char *stick = strrchr(order, ' ') + 1, *label = "OUTPUT";
    uint32_t arg = t->b->args.count;
    bundle_arg fresh = {.kind = BUNDLE_ARG_TENSOR, .bytes = 1 << 16};
    assert_ok(VEC_PUSH(t->memory, &t->b->args, fresh));
    t->fill[arg] = format;
    if (step->tensor_count) label = arena_printf(t->memory, "L%u", step->tensor_count);
    place_tensor(t->b, step, make_tensor(step, label, format, order, stick, absent), (int32_t)arg,
                 0);
}

static spyre_format read_format(opfunc op, spyre_format wanted)
{
    if (op == OPFUNC_FP8TODL16 || op == OPFUNC_BATCHMATMULFP8 || op == OPFUNC_CONV2DFP8)
        return SPYRE_FORMAT_SEN143_FP8;
    return wanted;
}

static spyre_format written_format(opfunc op, spyre_format wanted)
{
    switch ((int)op) {
    case OPFUNC_CSQINT8CH:
    case OPFUNC_CSQINT8MB:
    case OPFUNC_CSQINT8WT: return SPYRE_FORMAT_SENINT8;
    case OPFUNC_CSQINT4:
    case OPFUNC_CSQINT4WT: return SPYRE_FORMAT_SENINT4;
    case OPFUNC_QFP8CH:
    case OPFUNC_QFP8MB:
    case OPFUNC_QFP8WT: return SPYRE_FORMAT_SEN143_FP8;
    case OPFUNC_DL16TOFP32: return FP32;
    case OPFUNC_FP32TODL16: return DL16;
    default: return wanted;
    }
}

static bundle_step begin(trial *t, opfunc op, spyre_format compute, const made_dim *dims)
{
    const opfunc_info *info = opfunc_describe(op);
    bundle_step step = make_step(t->memory, op, dims);
    step.compute_format = compute;
    for (uint32_t p = 0; p < OPFUNC_MAX_PARAMETERS && info->parameter[p]; p++)
        add_constant(&step, info->parameter[p], 0.5f + (float)p);
    return step;
}

static bundle_step product(trial *t, opfunc op, spyre_format wanted)
{
    spyre_format from = read_format(op, wanted);
    int64_t lanes = spyre_format_elements_per_stick(from);
    bool slides = opfunc_slides(op);
    bundle_step step =
        slides ? begin(t, op, wanted, DIMS({"i", CASES, 1}, {"j", 1, 1}, {"out", 128, 1},
                                           {"ki", 1, 1}, {"kj", 1, 1}, {"in", lanes, 1}))
               : begin(t, op, wanted, DIMS({"mb", CASES, 1}, {"out", 128, 1}, {"in", lanes, 1}));
    if (slides) {
        make_window(&step, "i", "ki", 1, 1, 0, CASES);
        make_window(&step, "j", "kj", 1, 1, 0, 1);
    }
    give(t, &step, from, slides ? "i j in" : "mb in", "");
    give(t, &step, from, slides ? "ki kj in out" : "in out", "");
    give(t, &step, wanted, slides ? "i j out" : "mb out", "");
    return step;
}

// Two rows of the input are a case.
static bundle_step pool(trial *t, opfunc op, spyre_format wanted)
{
    bundle_step step =
        begin(t, op, wanted, DIMS({"i", CASES, 1}, {"j", 1, 1},
                                  {"out", spyre_format_elements_per_stick(wanted), 1},
                                  {"ki", 2, 1}, {"kj", 1, 1}));
    make_window(&step, "i", "ki", 2, 1, 0, 2 * CASES);
    make_window(&step, "j", "kj", 1, 1, 0, 1);
    give(t, &step, wanted, "i j out", "");
    if (op == OPFUNC_AVGPOOLNMAPFWD) give(t, &step, wanted, "i j out", "out");
    if (op == OPFUNC_DEPTHWISECONV2D) give(t, &step, wanted, "ki kj out", "");
    give(t, &step, wanted, "i j out", "");
    return step;
}

// A row is a case.
static bundle_step make_case(trial *t, opfunc op, spyre_format wanted)
{
    const opfunc_info *info = opfunc_describe(op);
    if (info->kind == OPFUNC_KIND_MATMUL) return product(t, op, wanted);
    if (info->kind == OPFUNC_KIND_POOL) return pool(t, op, wanted);
    spyre_format from = read_format(op, wanted), to = written_format(op, wanted);
    int64_t lanes = spyre_format_elements_per_stick(from);
    if (spyre_format_elements_per_stick(to) > lanes) lanes = spyre_format_elements_per_stick(to);
    bool reduces = opfunc_reduces(op) || op == OPFUNC_LAYERNORMSCALE;
    bundle_step step = begin(t, op, wanted, DIMS({"mb", CASES, 1}, {"out", lanes, 1}));
    bool parametric = info->kind == OPFUNC_KIND_PARAMETRIC; // with constants
    const bool least = parametric || op == OPFUNC_EXX2;
    for (uint32_t i = 0; i < (least ? info->least_inputs : info->most_inputs); i++) {
        bool of_norm = op == OPFUNC_LAYERNORMNORM && i > 0, scales = op == OPFUNC_LAYERNORMSCALE;
        give(t, &step, from, "mb out", of_norm ? (i < 3 ? "out" : "mb") : scales ? "out" : "");
    }
    give(t, &step, to, "mb out", reduces ? "out" : "");
    return step;
}

// ---- its numbers

// What is stored for MOST: the greatest finite number.
static double most_of(spyre_format format)
{
    if (format == DL16) return (double)dl16_to_float(DL16_MERGED - 1);
    return format == FP32 ? (double)3.40282347e38f : 448.0;
}

static double number_of(double given, spyre_format format)
{
    return fabs(given) == MOST ? copysign(most_of(format), given) : given;
}

// Operands behind the second are 1, the bias of a norm 0.
static void fill(const trial *t, opfunc op, uint32_t operand, uint8_t *bytes)
{
    const pair *cases = is_single(op) ? SINGLE : PAIRS;
    spyre_format format = t->fill[operand];
    int64_t element = (int64_t)spyre_format_bytes(format), lanes = SPYRE_STICK_BYTES / element;
    arrangement how = arrangement_of(op);
    bool both = how != BY_OPERAND, constant = operand >= (both ? 1 : 2);
    for (int64_t i = 0; i < t->b->args.items[operand].bytes / element; i++) {
        int64_t row = i / lanes, n = how == BY_ROW ? row / 2 : row;
        int64_t side = how == BY_ROW ? row % 2 : how == ALONG_ROW ? i % 2 : (int64_t)operand;
        double value = constant ? (operand == 4 ? 0.0 : 1.0) : 0.0;
        if (!constant && opfunc_makes_pairs(op)) side = i % 2;
        if (!constant) value = number_of(cases[n % CASES][side], format);
        element_store(bytes + i * element, format, value);
    }
}

static void append_number(text *out, double value)
{
    if (isnan(value)) text_append(out, " nan");
    else if (isinf(value)) text_append(out, value > 0 ? " inf" : " -inf");
    else if (value == 0) text_append(out, signbit(value) ? " -0" : " 0");
    else text_printf(out, " %.4g", value);
}

static void append_results(text *out, opfunc op, spyre_format format, const uint8_t *bytes,
                           bool nan)
{
    uint32_t count = is_single(op) ? SINGLE_COUNT : PAIR_COUNT;
    if (!nan) count -= is_single(op) ? 1 : 2;
    for (uint32_t n = 0; n < count; n++) {
        const uint8_t *row = bytes + n * SPYRE_STICK_BYTES;
        if (format == SPYRE_FORMAT_SENINT4) {
            text_printf(out, " %d:%d", (int8_t)(uint8_t)(row[0] << 4) / 16, (int8_t)row[0] >> 4);
            continue;
        }
        append_number(out, element_load(row, format));
        if (opfunc_moments(op) == 1) continue;
        text moment = {0};
        append_number(&moment, element_load(row + spyre_format_bytes(format), format));
        text_printf(out, ":%s", text_string(&moment) + 1);
        text_free(&moment);
    }
}

// The cell of a format: results of the cases in their order, or why there is none.
static void append_cell(text *out, opfunc op, spyre_format wanted)
{
    trial t = trial_begin(1, 300 << 10);
    t.lx_next = 0;
    t.any_nan = wanted == FP32;
    bundle_step step = make_case(&t, op, wanted);
    isa_program *program;
    spyre_status status;
    finish_step(t.b, &step);
    status = bundle_verify(t.b);
    if (status) {
        text_append(out, " refused");
        spyre_status_free(status);
        arena_destroy(t.memory);
        return;
    }
    assert_ok(back_compile(t.b, &t.options, t.memory, &program));
    uint8_t *initial[BUNDLE_MAX_TENSORS], *expected[BUNDLE_MAX_TENSORS];
    uint32_t last = t.b->args.count - 1;
    for (uint32_t a = 0; a <= last; a++) {
        size_t bytes = (size_t)t.b->args.items[a].bytes;
        initial[a] = arena_alloc(t.memory, bytes);
        expected[a] = arena_alloc(t.memory, bytes);
        if (a < last) fill(&t, op, a, initial[a]);
        else memset(initial[a], 0, bytes);
        memcpy(expected[a], initial[a], bytes);
    }
    trial_check(&t, program, initial, expected, 0);
    bool nan = wanted == FP32 && t.fill[0] == FP32;
    append_results(out, op, t.fill[last], expected[last], nan);
    arena_destroy(t.memory);
}

// ---- the page

static void append_table(text *out, bool single)
{
    text_printf(out, "\n| opfunc | 16 bits | float32 |\n| --- | --- | --- |\n");
    for (int n = 0; n < OPFUNC_COUNT; n++) {
        opfunc op = (opfunc)n;
        if (!has_special_values(op) || is_single(op) != single) continue;
        text_printf(out, "| `%s` |", opfunc_describe(op)->name);
        append_cell(out, op, DL16);
        text_append(out, " |");
        append_cell(out, op, FP32);
        text_append(out, " |\n");
    }
}

static void append_cases(text *out, const char *what, const pair *cases, uint32_t count,
                         bool single)
{
    text_printf(out, "\n%s", what);
    for (uint32_t n = 0; n < count; n++) {
        text_append(out, n ? "," : "");
        for (uint32_t side = 0; side < (single ? 1u : 2u); side++) {
            double value = cases[n][side];
            if (fabs(value) == MOST) text_append(out, value > 0 ? " max" : " -max");
            else append_number(out, value);
        }
    }
    text_append(out, ".\n");
}

static void special_values__are_those_of_the_page(void **state)
{
    (void)state;
    arena *memory = arena_create();
    char *page;
    size_t length;
    text made = {0};
    assert_ok(file_read(memory, PAGE, 1 << 20, &page, &length));
    char *begin = strstr(page, BEGIN);
    assert_non_null(begin);
    text_append_bytes(&made, page, (size_t)(begin - page));
    text_append(&made, BEGIN);
    append_cases(&made, "Of one number, in this order:", SINGLE, SINGLE_COUNT, true);
    append_table(&made, true);
    append_cases(&made, "Of two:", PAIRS, PAIR_COUNT, false);
    append_table(&made, false);
    if (getenv("SPYRE_BLESS")) assert_ok(file_write(PAGE, text_string(&made), made.length));
    else assert_string_equal(begin, text_string(&made) + (begin - page));
    text_free(&made);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_values__are_those_of_the_page),
    };
    return cmocka_run_group_tests(tests, trial_setup, trial_teardown);
}
