// SPDX-License-Identifier: Apache-2.0
//
// How machine code of a vector program is made (vector_code.h). Its loops and sums are in
// vector_code.c, sums in sum_code.c, conditions in condition_code.c, loads and stores in
// load_store_code.c, conversions and rounding in convert_code.c, look-ups in look_up_code.c,
// opfuncs in opfunc_code.c, programs of codes alone in unconverted_code.c, registers and
// instructions in unit_code.c.
// The definition of every op is program_body.h; a test compares the two.
//
// A unit, 64 elements, is four quarters: both registers of both pairs of program_body.h. x and y
// say where in zmm0 to zmm23 their quarters are now. Results get a register of their own, so
// copies cost nothing; a register without users is free. The first constants have zmm24 to zmm31.
// Where a program needs no more than the elements' codes, values are their two registers instead.
#ifndef CARD_CODEGEN_UNIT_CODE_H
#define CARD_CODEGEN_UNIT_CODE_H

#include "card/codegen/encode.h"
#include "card/codegen/value_range.h"
#include "card/simd/vector_program.h"

enum {
    QUARTERS = 4,
    QUARTER_BYTES = 64,
    UNIT_BYTES = QUARTERS * QUARTER_BYTES,
    CODE_REGISTERS = 24,                    // of values
    CODE_FIRST_CONSTANT = 24, CODE_CONSTANT_REGISTERS = 8,
    CODE_MOST_COLD = 128,
    CODE_MOST_SAME = 16,                    // of rows, in code for codes
};

// Registers of the loops.
#define STEPS       RBX                     // const vector_step *
#define ROWS        R8
#define STICKS      R9
#define STICK       R10
#define ROW         R11
#define NEXT        R14                     // stick, or by rows the row, that is fetched meanwhile
#define TURNS       RDI                     // all bits, where the next stick is the next block's
#define FURTHER     R15                     // bytes from where elements of the stick, or by rows of
                                            // the row, begin to the unit's, of most steps
#define ROW_BYTES   RSI                     // row * UNIT_BYTES
#define KEPT_BYTES  R12                     // (stick * rows + row) * UNIT_BYTES
#define STICK_BYTES R13                     // stick * UNIT_BYTES
#define SLOTS       RSP                     // of UNIT_BYTES each, behind them those of calls

// What a call takes and makes, and where registers wait for its end. Behind that, of each step,
// where elements of the stick, or row, begin, and those that are fetched meanwhile; how far ahead.
enum {
    CALL_X = VECTOR_SLOTS * UNIT_BYTES,
    CALL_Y = CALL_X + UNIT_BYTES,
    CALL_REGISTERS = CALL_Y + UNIT_BYTES,
    CODE_BEGINS = CALL_REGISTERS + CODE_REGISTERS * QUARTER_BYTES,
    CODE_AHEAD = CODE_BEGINS + CODE_MOST_STEPS * 16,
    CODE_SAME = CODE_AHEAD + QUARTER_BYTES, // codes that are the same for all rows
    CODE_FRAME_BYTES = CODE_SAME + CODE_MOST_SAME * QUARTER_BYTES,
};

typedef struct {
    zmm reg[QUARTERS];
} quarters;

// What happens seldom stands behind everything else.
typedef struct {
    size_t from, back;                      // the jump to it, the label behind that
    quarters x, result;
    zmm scratch;
    enum { COLD_ROUND, COLD_STORE, COLD_STORE_HALVES } does;
} cold_code;

// What a unit has between its steps.
typedef struct {
    quarters x, y;
    struct {
        bool held;                          // in registers, else in memory
        quarters at;
    } slot[VECTOR_SLOTS];
} unit_values;

typedef struct {
    code_buffer b;
    const vector_program *program;
    const vector_step *step;                // that is made now
    unit_values now, other;                 // of two rows in turns: of this one, of the other one
    bool paired, second;                    // it goes by two rows; this is the second of them
    bool narrow;                            // codes are enough (unconverted_code.c)
    uint8_t users[CODE_REGISTERS];
    cold_code cold[CODE_MOST_COLD];
    uint32_t colds;
    plain_choice choice;
    bool looks;                             // LOADs are looked at before
    bool is_plain;                          // the code that is made now is for plain elements
    size_t wild[2], alone, next;            // jumps to the code for others, and for the last row;
                                            // what is behind all
    bool half;                              // the first pair of quarters alone is computed: of
                                            // half programs without calls, which take whole units
    uint32_t pairs;                         // of quarters that a result depends on, the first ones
    struct {
        bool held;                          // in mask registers, for choices
        uint32_t slot;                      // that it stands for
        const vector_step *made;            // by this comparison
    } condition;
    bool by_rows;                           // all sticks of a row, then the next row: its sums stay
    quarters sums[2];                       // in registers, of the step
    const vector_step *summing[2];
    gpr further;                            // what code_elements() found for the step
    bool fails;                             // an op without code
} unit_code;

// Quarters of a unit that are computed, and pairs of them that are stored, the first ones.
static inline uint32_t code_quarters(const unit_code *c)
{
    return c->half ? QUARTERS / 2 : QUARTERS;
}
static inline uint32_t code_stored(const unit_code *c)
{
    return c->program->half ? 1 : QUARTERS / 2;
}

// Registers of a value: quarters, or codes of 32 lanes.
static inline uint32_t code_parts(const unit_code *c)
{
    return c->narrow ? code_quarters(c) / 2 : code_quarters(c);
}

// The step whose rows, or by rows sticks, lie as those of most steps; NULL without elements.
// Whether a step's lie so, too.
const vector_step *code_leading_step(const vector_program *w);
bool code_follows(const vector_step *s, const vector_step *leading);

// The loops of a vector program without the values its sums begin with and without their end. False
// where an op has no code, or too much.
bool write_vector_code(code_buffer *b, const vector_program *w);

// --- Registers

// One more user.
zmm code_share(unit_code *c, zmm reg);
void code_release(unit_code *c, zmm reg);
zmm code_new(unit_code *c);                 // slots give theirs up where none is free
void code_set(unit_code *c, quarters *to, uint32_t quarter, zmm reg);
void code_set_all(unit_code *c, quarters *to, zmm reg);     // one for all
void code_release_all(unit_code *c, quarters *q);

// --- Instructions

// The first constants, whose values are known at the end, to their registers.
void code_load_constants(unit_code *c);
operand code_constant(unit_code *c, uint32_t bits);
operand code_number(unit_code *c, float number);
operand code_words(unit_code *c, uint32_t bits);            // 16 bits in all lanes
void code_op(unit_code *c, avx512 op, zmm to, zmm first, operand last);
void code_op_byte(unit_code *c, avx512 op, zmm to, zmm first, operand last, uint8_t byte);
void code_masked(unit_code *c, avx512 op, zmm to, mask lanes, zmm first, operand last);
void code_zeroed(unit_code *c, avx512 op, zmm to, mask lanes, zmm first, operand last);
void code_load(unit_code *c, zmm to, operand from);
void code_store(unit_code *c, operand to, zmm from);
void code_store_unit(unit_code *c, operand to, zmm from);   // of the elements of a step
typedef enum { CODE_EQUAL = 0, CODE_UNORDERED = 3, CODE_NOT_EQUAL = 4, CODE_LESS = 0x11,
               CODE_LESS_EQUAL = 0x12, CODE_NOT_LESS_EQUAL = 0x16, CODE_GREATER = 0x1E } code_order;
void code_compare(unit_code *c, mask to, code_order order, zmm first, operand last);
typedef enum { CODE_SHIFT_RIGHT = 2, CODE_SHIFT_SIGNED = 4, CODE_SHIFT_LEFT = 6 } code_shift_kind;
void code_shift(unit_code *c, avx512 op, code_shift_kind kind, zmm to, zmm from, uint8_t bits);

// A register that has it; the caller releases it.
zmm code_in_register(unit_code *c, operand o);

// --- Addresses

// A field of the step that is made now.
#define CODE_FIELD(name)                                                                     \
    at_offset(STEPS, (int32_t)((const char *)&c->step->name - (const char *)c->program->steps))

// For all units of a stick, or by rows of a row: where elements of all steps begin.
void code_find_elements(unit_code *c);

// FURTHER of a unit.
void code_go_further(unit_code *c);

// Where the step has the unit's elements: RAX + c->further; with `ahead` RDX + c->further is what
// the host fetches meanwhile. Behind it, bytes of the elements, and a pair's of 16 bits.
void code_elements(unit_code *c, bool ahead);
operand code_element_at(const unit_code *c, int32_t offset);
operand code_pair_at(const unit_code *c, uint32_t pair);

operand code_quarter_at(gpr base, int32_t offset, uint32_t quarter);

// Where a slot lies in memory.
operand code_slot_at(uint32_t slot, uint32_t quarter);

// RAX = values of the step + `offset`.
void code_values(unit_code *c, gpr offset);

// --- Loads and stores (load_store_code.c)

void code_prefetch_elements(unit_code *c);  // behind code_elements()
void code_load_elements(unit_code *c, quarters *to);
void code_load_wide(unit_code *c, quarters *to);
void code_spread(unit_code *c, quarters *to);
void code_store_elements(unit_code *c);
void code_store_wide(unit_code *c);
void code_store_halves(unit_code *c, uint32_t pair);
void code_store_rare(unit_code *c, const cold_code *cold);      // signs without those of NaN
void code_store_rare_halves(unit_code *c, const cold_code *cold);

// --- Conversions of 16 bits from and to fp32, and rounding (convert_code.c)

// Codes of SEN169_FP16, which are lost, to a pair of `to`; plain: without zero and merged.
void code_widen(unit_code *c, zmm codes, quarters *to, uint32_t pair, bool plain);

// Half a pair of IEEE_FP16 in the lower half of `codes`, in a new register.
zmm code_widen_halves(unit_code *c, zmm codes, bool plain);

// Codes of two registers in turns of four, in `to`; of a NaN the merged code with any sign.
void code_narrow_numbers(unit_code *c, zmm to, zmm a, zmm b, value_nan nan);
void code_narrow(unit_code *c, zmm to, const quarters *x, uint32_t pair);   // without NaN
void code_narrow_value(unit_code *c, zmm to, operand from);     // one of fp32, as codes, no NaN

// Two registers of fp32 to IEEE_FP16 in turns of four, in `to`. code_limit_halves() makes 65504 of
// 65536 and infinity of NaN before.
void code_narrow_halves(unit_code *c, zmm to, zmm scratch, zmm a, zmm b);
void code_limit_halves(unit_code *c, zmm x, zmm scratch);
void code_round(unit_code *c);              // as the step says

// What becomes zero or infinite, infinity and NaN among the values to round.
void code_round_rare(unit_code *c, const cold_code *cold);

// --- Look-ups (look_up_code.c)

void code_look_up(unit_code *c);
void code_store_look_up(unit_code *c);

// --- What happens seldom (unit_code.c)

void code_add_cold(unit_code *c, cold_code cold);           // jumps there unless flags say zero

// The jump where elements of c->choice.plain are not plain (plain_code.c).
size_t code_check_plain(unit_code *c);

// In place, to the significand of SEN169_FP16.
void code_round_bits(unit_code *c, zmm reg);

// --- Sums of rows (sum_code.c)

// Pairs of quarters that enter the sums of a program of loads and sums alone; else all.
uint32_t code_pairs_taken(const vector_program *w);

void code_choose_loops(unit_code *c);

// Of windows that overlap (window_code.c): rows from ROW on, several at a time, and the jump where
// none is left; 0, and nothing, of other programs.
size_t code_sum_windows(unit_code *c);
void code_sum(unit_code *c);
void code_load_sums(unit_code *c);          // those that stay in registers, of a row
void code_store_sums(unit_code *c);

// --- Conditions (condition_code.c)

enum { CODE_CONDITION = 4 };                // the first quarter's mask; others use those below

typedef struct {
    code_order order;
    bool turned;                            // y is compared with x
} code_comparison;
bool code_comparison_of(opfunc op, code_comparison *out);

// Codes of x and y, each part's in a mask from `first` on.
void code_compare_ranks(unit_code *c, mask first, code_comparison how);

// Makes the comparison c->step in mask registers; false, and nothing, where it must be a value.
bool code_condition(unit_code *c, code_comparison how);

// c->step, which takes a slot, finds it there; c->step, which fills this one, has it there.
bool code_has_condition(const unit_code *c);
bool code_holds_condition(unit_code *c, uint32_t slot);

// --- Programs of codes alone (unconverted_code.c)

// The step that is made now; false where it moves registers alone, or looks up.
bool code_narrow_step(unit_code *c);

// Once for all units: what is the same for all rows.
void code_load_same(unit_code *c);

// --- Opfuncs (opfunc_code.c)

void code_opfunc(unit_code *c, uint32_t op);
operand code_first_input(unit_code *c, uint32_t part);          // of three; the caller releases it
void code_exp(unit_code *c);
void code_formula(unit_code *c);

// Makes the sum that op says of `sum` and value, in `sum`.
void code_combine(unit_code *c, uint32_t op, zmm sum, zmm value);

#endif
