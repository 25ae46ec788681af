// SPDX-License-Identifier: Apache-2.0
//
// The back-end makes programs of one form for all sizes of a symbol (back/nest.h): the same
// instructions with other counts, extents, offsets and strides. So a program for the largest sizes,
// and a rule for every number that differs, serve all of them.
//
// A rule, found from the programs of a few sizes (program_numbers.h), is a guess about the others
// and is checked at each: every size that a launch can have is compiled here, and what it gives and
// what a launch would make of the one program must do the same, tile by tile (isa_simplify(): where
// a size is one, tiles have fewer dims). Programs that differ in form, and a number that follows
// another rule (a quotient), leave the bundle to be compiled when it is launched.
#include "compile/sizes/symbolic_program.h"

#include <string.h>

#include "compile/sizes/program_numbers.h"
#include "compile/spyrecode/spyrecode_of_bundle.h"
#include "isa/corrections.h"

_Static_assert((int)BUNDLE_MAX_SYMBOLS == (int)SPYRECODE_MOST_SYMBOLS, "one limit");

// --- Combinations of sizes

uint32_t symbolic_program_count(const bundle *b)
{
    int64_t count = 1;
    for (uint32_t s = 0; s < b->symbols.count && count <= SYMBOLIC_MOST_SIZES; s++) {
        int64_t values = b->symbols.items[s].most / b->symbols.items[s].granularity;
        count = values > SYMBOLIC_MOST_SIZES ? SYMBOLIC_MOST_SIZES + 1 : count * values;
    }
    return count > SYMBOLIC_MOST_SIZES ? SYMBOLIC_MOST_SIZES + 1 : (uint32_t)count;
}

void symbolic_program_granules(const bundle *b, uint32_t number, int64_t *out_granules)
{
    for (uint32_t s = b->symbols.count; s-- > 0;) {
        uint32_t values = (uint32_t)(b->symbols.items[s].most / b->symbols.items[s].granularity);
        out_granules[s] = values - number % values;
        number /= values;
    }
}

spyre_status symbolic_program_bind(arena *memory, const bundle *b, const int64_t *granules,
                                   bundle **out_bundle)
{
    int64_t *values = ARENA_NEW(memory, int64_t, b->symbols.count);
    TRY_ALLOC(values);
    for (uint32_t s = 0; s < b->symbols.count; s++)
        values[s] = granules[s] * b->symbols.items[s].granularity;
    return bundle_bind(memory, b, values, out_bundle);
}

// --- A program and what it takes on trust, as numbers

typedef struct {
    isa_program *program;
    spyrecode_argument *arguments;
    uint32_t argument_count, program_numbers, count;
    int64_t *numbers;                   // the program's, then of each argument its fields
} sample;

static uint32_t field_count(const spyrecode_argument *argument)
{
    return argument->operand ? 1 + 2 * argument->operand->walk_count : 0;
}

static spyre_status take_sample(arena *memory, const bundle *b, const back_options *options,
                                const int64_t *granules, sample *out)
{
    bundle *bound;
    TRY(symbolic_program_bind(memory, b, granules, &bound));
    TRY(back_compile(bound, options, memory, &out->program));
    TRY(code_bundle_arguments(memory, bound, &out->arguments));
    out->argument_count = bound->args.count;
    out->program_numbers = out->count = isa_number_count(out->program);
    for (uint32_t a = 0; a < out->argument_count; a++)
        out->count += field_count(&out->arguments[a]);
    TRY_NEW(memory, out->numbers, out->count);
    isa_numbers(out->program, out->numbers);
    int64_t *at = out->numbers + out->program_numbers;
    for (uint32_t a = 0; a < out->argument_count; a++) {
        if (!out->arguments[a].operand) continue;
        spyrecode_operand operand = *out->arguments[a].operand;
        for (uint32_t f = 0; f < field_count(&out->arguments[a]); f++)
            *at++ = *spyrecode_operand_field(&operand, f);
    }
    return NULL;
}

static bool same_form(const sample *a, const sample *b)
{
    bool same = a->count == b->count && a->argument_count == b->argument_count &&
                isa_same_form(a->program, b->program);
    for (uint32_t k = 0; same && k < a->argument_count; k++)
        same = field_count(&a->arguments[k]) == field_count(&b->arguments[k]);
    return same;
}

// --- Points and checks

typedef struct {
    arena *memory;
    const bundle *b;
    const back_options *options;
    sample largest;
    program_numbers rules;
    bool fits;
} symbolic_search;

static spyrecode_sizes sizes_of(const symbolic_search *f)
{
    return (spyrecode_sizes){f->b->symbols.count, f->rules.expressions.count, NULL,
                             f->rules.expressions.items};
}

static spyre_status take_points(symbolic_search *f)
{
    for (uint32_t s = 0; s < f->b->symbols.count; s++) {
        f->rules.granules[s] = f->b->symbols.items[s].most / f->b->symbols.items[s].granularity;
        f->rules.degree[s] = f->rules.granules[s] > 3 ? 2 : f->rules.granules[s] > 1;
    }
    TRY(take_sample(f->memory, f->b, f->options, f->rules.granules, &f->largest));
    f->rules.symbol_count = f->b->symbols.count;
    f->rules.count = f->largest.count;
    f->rules.program_count = f->largest.program_numbers;
    for (uint32_t point = 0; point < NUMBER_POINTS && f->fits; point++) {
        int64_t granules[SPYRECODE_MOST_SYMBOLS];
        bool taken = true;
        sample one;
        for (uint32_t s = 0; s < SPYRECODE_MOST_SYMBOLS; s++) {
            taken = taken && program_numbers_digit(point, s) <= f->rules.degree[s];
            granules[s] = f->rules.granules[s] - program_numbers_digit(point, s);
        }
        if (!taken) continue;
        TRY(take_sample(f->memory, f->b, f->options, granules, &one));
        f->fits = same_form(&f->largest, &one);
        f->rules.points[point] = one.numbers;
    }
    return NULL;
}

// What launches make of the program does what the program `one` does.
static spyre_status check_program(symbolic_search *f, arena *scratch, const sample *one,
                                  const int64_t *granules)
{
    const isa_program *program = f->largest.program;
    const spyrecode_sizes sizes = sizes_of(f);
    isa_program *corrected;
    int64_t *values = ARENA_NEW(scratch, int64_t, program->value_count);
    TRY_ALLOC(values);
    for (uint32_t v = 0; v < program->value_count; v++)
        TRY(spyrecode_evaluate(&sizes, v, granules, &values[v]));
    TRY(isa_correct(scratch, program, values, &corrected));
    isa_simplify(corrected);
    isa_simplify(one->program);
    uint32_t count = isa_number_count(corrected);
    f->fits = isa_same_form(corrected, one->program);
    if (!f->fits) return NULL;
    int64_t *mine = ARENA_NEW(scratch, int64_t, count), *its = ARENA_NEW(scratch, int64_t, count);
    TRY_ALLOC(mine);
    TRY_ALLOC(its);
    isa_numbers(corrected, mine);
    isa_numbers(one->program, its);
    f->fits = memcmp(mine, its, count * sizeof *mine) == 0;
    return NULL;
}

static spyre_status check_operands(symbolic_search *f, const sample *one, const int64_t *granules)
{
    const spyrecode_sizes sizes = sizes_of(f);
    uint32_t left = f->largest.count - f->largest.program_numbers;
    f->fits = one->count - one->program_numbers == left;
    for (uint32_t n = 0; n < left && f->fits; n++) {
        uint32_t number = f->largest.program_numbers + n;
        int64_t value = f->largest.numbers[number];
        if (f->rules.rule[number])
            TRY(spyrecode_evaluate(&sizes, f->rules.rule[number] - 1, granules, &value));
        f->fits = value == one->numbers[one->program_numbers + n];
    }
    return NULL;
}

static spyre_status check_size(symbolic_search *f, uint32_t number)
{
    int64_t granules[SPYRECODE_MOST_SYMBOLS];
    sample one = {0};
    arena *scratch = arena_create();
    TRY_ALLOC(scratch);
    symbolic_program_granules(f->b, number, granules);
    spyre_status status = take_sample(scratch, f->b, f->options, granules, &one);
    if (!status) status = check_operands(f, &one, granules);
    if (!status && f->fits) status = check_program(f, scratch, &one, granules);
    arena_destroy(scratch);
    return status;
}

// --- The code

static spyre_status add_corrections(symbolic_search *f)
{
    isa_program *program = f->largest.program;
    program->value_count = f->rules.value_count;
    for (uint32_t n = 0; n < f->largest.program_numbers; n++) {
        isa_correction correction = {n, f->rules.rule[n] - 1};
        if (f->rules.rule[n]) TRY(VEC_PUSH(f->memory, &program->corrections, correction));
    }
    return NULL;
}

static spyre_status vary_operands(symbolic_search *f)
{
    uint32_t number = f->largest.program_numbers;
    for (uint32_t a = 0; a < f->largest.argument_count; a++) {
        spyrecode_argument *argument = &f->largest.arguments[a];
        uint32_t fields = field_count(argument);
        if (!argument->operand) continue;
        spyrecode_operand *operand = ARENA_NEW(f->memory, spyrecode_operand, 1);
        spyrecode_variation *variations = ARENA_NEW(f->memory, spyrecode_variation, fields);
        TRY_ALLOC(operand);
        TRY_ALLOC(variations);
        *operand = *argument->operand;
        operand->tile_count = 0;        // they are those of the largest sizes
        for (uint32_t field = 0; field < fields; field++, number++)
            if (f->rules.rule[number])
                variations[operand->variation_count++] =
                    (spyrecode_variation){field, f->rules.rule[number] - 1};
        operand->variations = variations;
        argument->operand = operand;
    }
    return NULL;
}

static spyre_status build_code(symbolic_search *f, spyrecode **out_code)
{
    spyrecode_symbol *symbols = ARENA_NEW(f->memory, spyrecode_symbol, f->b->symbols.count);
    TRY_ALLOC(symbols);
    for (uint32_t s = 0; s < f->b->symbols.count; s++) {
        const bundle_symbol *from = &f->b->symbols.items[s];
        symbols[s] = (spyrecode_symbol){from->name, from->granularity, from->most};
    }
    spyrecode_sizes sizes = sizes_of(f);
    sizes.symbols = symbols;
    TRY(vary_operands(f));
    return spyrecode_build(f->memory, f->largest.program, f->largest.arguments, &sizes, out_code);
}

// Finds rules, and whether they hold at every size.
static spyre_status find_and_check(symbolic_search *f)
{
    uint32_t count = symbolic_program_count(f->b);
    f->fits = count <= SYMBOLIC_MOST_SIZES;
    if (!f->fits) return NULL;
    TRY(take_points(f));
    if (f->fits) TRY(program_numbers_find(f->memory, &f->rules, &f->fits));
    f->fits = f->fits && f->b->args.count + f->rules.value_count <= SPYRECODE_MOST_PATCHES;
    if (f->fits) TRY(add_corrections(f));
    for (uint32_t number = 0; number < count && f->fits; number++) TRY(check_size(f, number));
    return NULL;
}

spyre_status symbolic_program_compile(arena *memory, const bundle *b, const back_options *options,
                                      spyrecode **out_code)
{
    *out_code = NULL;
    symbolic_search f = {.memory = memory, .b = b, .options = options};
    TRY(find_and_check(&f));
    return f.fits ? build_code(&f, out_code) : NULL;
}

spyre_status symbolic_program_of(arena *memory, const bundle *b, const back_options *options,
                                 spyrecode_sizes *out_sizes, isa_program **out_program)
{
    *out_program = NULL;
    symbolic_search f = {.memory = memory, .b = b, .options = options};
    TRY(find_and_check(&f));
    *out_sizes = sizes_of(&f);
    if (f.fits) *out_program = f.largest.program;
    return NULL;
}
