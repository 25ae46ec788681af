// SPDX-License-Identifier: Apache-2.0
//
// SpyreCode: what a back-end leaves for the runtime, a directory with spyrecode.json (how to
// prepare a job, how to execute it) and init.bin. Specification 0277 of
// torch-spyre/interface-specs; where torch-spyre's own runtime reads other keys than the
// specification names, both are read and the runtime's are written. docs/spyrecode.md lists the
// differences and this stack's own parts.
#ifndef SPYRECODE_MODEL_H
#define SPYRECODE_MODEL_H

#include "isa/isa.h"
#include "spyre/layout.h"

// The last segment of the card, 7, holds what a job brings along; the space of a job starts at its
// beginning.
#define SPYRECODE_BASE ((ISA_SEGMENTS - 1) * ISA_SEGMENT_BYTES)
enum {
    SPYRECODE_ALIGNMENT = SPYRE_STICK_BYTES,
    SPYRECODE_MOST_COMMANDS = 1024,
    SPYRECODE_MOST_PATCHES = 4096,
    SPYRECODE_MOST_WALKS = 8,
    SPYRECODE_MOST_WAYS = 32,
    SPYRECODE_MOST_SYMBOLS = 4,
    SPYRECODE_MOST_POWER = 2,
    SPYRECODE_MOST_TERMS = 81,          // every symbol to every power
};

// The handle of what a launch gives to a host function: addresses and parameters.
#define SPYRECODE_LAUNCH_NUMBERS "iargs"

// Preparation, once: `bytes` of the file `name` go to card address `target`.
typedef struct {
    const char *name;
    uint64_t target;
    uint64_t byte_count;
    const uint8_t *bytes;
} spyrecode_transfer;

// A size that a launch chooses, and a number that follows from such sizes: the sum of products of
// symbols and their squares, each counted in granules.
typedef struct {
    const char *name;
    int64_t granularity, most;          // it is a multiple of the one, at most the other
} spyrecode_symbol;
typedef struct {
    int64_t factor;
    uint8_t power[SPYRECODE_MOST_SYMBOLS];      // how often symbol s is in the product
} spyrecode_term;
typedef struct {
    uint32_t term_count;
    const spyrecode_term *terms;
} spyrecode_expression;
typedef struct {
    uint32_t symbol_count, expression_count;
    const spyrecode_symbol *symbols;
    const spyrecode_expression *expressions;
} spyrecode_sizes;

// Host compute metadata: eight little-endian bytes at `offset` of the output get an address, or a
// number that follows from sizes.
typedef enum {
    SPYRECODE_FROM_ARGUMENT,
    SPYRECODE_FROM_ADDRESS,
    SPYRECODE_FROM_SIZES,
} spyrecode_source;
typedef struct {
    uint64_t offset;
    spyrecode_source source;
    uint32_t index;                     // ARGUMENT: of the launch; SIZES: the expression
    uint64_t address;                   // ADDRESS: in the job's own space
    uint64_t byte_count;                // ADDRESS: size of what lies there
} spyrecode_patch;

// What a program takes on trust about a launch argument, as far as its code says. Field 0 of it is
// least_bytes, 1 + 2 * w the step of walk w and 2 + 2 * w its count.
typedef struct {
    uint32_t field, expression;
} spyrecode_variation;
typedef struct {
    int64_t step_bytes, count;          // indices along a dim of the program, and how far apart
} spyrecode_walk;
typedef struct {
    uint32_t way;                       // below SPYRECODE_MOST_WAYS
    uint32_t dim;                       // of the layout, which may be longer
} spyrecode_tile;
typedef struct {
    uint32_t index;                     // of the launch
    spyre_format format;                // INVALID: not stated
    int64_t least_bytes;                // what it touches from the argument's base; 0: not stated
    uint32_t walk_count;                // 0: not stated
    spyrecode_walk walks[SPYRECODE_MOST_WALKS];
    uint32_t variation_count;           // fields that follow from sizes; the numbers here are of
    const spyrecode_variation *variations;  // the largest
    spyre_layout layout;                // of rank 0: not stated; its format is not
    uint32_t tile_count;                // ascending ways in which it may be larger, together with
    const spyrecode_tile *tiles;        // all that have the same way
} spyrecode_operand;

typedef enum {
    SPYRECODE_COMPUTE_ON_HOST,
    SPYRECODE_DATA_TRANSFER,
    SPYRECODE_COMPUTE_ON_DEVICE,
} spyrecode_command_kind;

typedef struct {
    spyrecode_command_kind kind;
    const char *handle;                 // HOST: of its output; TRANSFER: of the host's side
    const char *input;                  // HOST: of its input, SPYRECODE_LAUNCH_NUMBERS or an output
    const char *foreign;                // HOST: the metadata of another back-end, as JSON, or null
    const char *name;                   // DEVICE: in profiles, or null
    uint64_t byte_count;                // HOST: of its output; TRANSFER
    uint64_t address;                   // TRANSFER, DEVICE: card address
    bool to_host;                       // TRANSFER
    uint32_t argument_count;            // HOST: launch arguments it takes
    uint64_t program_bytes;             // HOST: length of the program at the front of init.bin
    uint32_t patch_count;               // HOST
    const spyrecode_patch *patches;
    uint32_t operand_count;             // HOST: arguments about which something is stated
    const spyrecode_operand *operands;
    spyrecode_sizes sizes;              // HOST
} spyrecode_command;

typedef struct {
    arena *memory;
    uint64_t space_bytes;               // Allocate
    VEC(spyrecode_transfer) transfers;
    VEC(spyrecode_command) commands;
} spyrecode;

// What a program argument stands for, when code is built.
typedef enum { SPYRECODE_LAUNCH, SPYRECODE_POOL, SPYRECODE_CONSTANTS } spyrecode_argument_kind;
typedef struct {
    spyrecode_argument_kind kind;
    uint32_t index;                     // LAUNCH: position among the launch arguments
    uint64_t byte_count;                // POOL, CONSTANTS
    const void *bytes;                  // CONSTANTS
    const spyrecode_operand *operand;   // LAUNCH: or null
} spyrecode_argument;

// Builds the code of a program: one transfer "init.bin" (the encoded program, then the constants),
// and, when the program has arguments, a correction of its argument table. Value v of its value
// table is expression v of `sizes`, which is null for a program without values.
SPYRE_MUST_CHECK spyre_status spyrecode_build(arena *memory, const isa_program *program,
                                              const spyrecode_argument *arguments,
                                              const spyrecode_sizes *sizes,
                                              spyrecode **out_code);

// Writes spyrecode.json and the files of its transfers into a directory, made when missing. Same
// code, same bytes.
SPYRE_MUST_CHECK spyre_status spyrecode_write(const spyrecode *code, const char *directory);

// What spyrecode.json says; `indent` 0 is one line.
SPYRE_MUST_CHECK spyre_status spyrecode_print(const spyrecode *code, unsigned indent, text *out);

// Reads a directory. Refuses whatever it does not know, with file, field and rule in one line.
SPYRE_MUST_CHECK spyre_status spyrecode_read(arena *memory, const char *directory,
                                             spyrecode **out_code);

// The reader without files: `json` of `length` bytes named `name`; transfers get no bytes.
SPYRE_MUST_CHECK spyre_status spyrecode_parse(arena *memory, const char *name, const char *json,
                                              size_t length, spyrecode **out_code);

// --- init.txt (init_text.c): code of one transfer as one text file

// Where torch-spyre looks for it, below `directory`:
// loadprogram_to_device/<its last part>-SenProgSend/init.txt. Null without memory.
const char *spyrecode_text_path(arena *memory, const char *directory);
SPYRE_MUST_CHECK spyre_status spyrecode_print_text(const spyrecode *code, text *out);
// Makes the directories above `path`.
SPYRE_MUST_CHECK spyre_status spyrecode_write_text(const spyrecode *code, const char *path);
// Errors name file and line. SPYRE_UNSUPPORTED for a file without our comment.
SPYRE_MUST_CHECK spyre_status spyrecode_parse_text(arena *memory, const char *name,
                                                   const char *source, size_t length,
                                                   spyrecode **out_code);
SPYRE_MUST_CHECK spyre_status spyrecode_read_text(arena *memory, const char *path,
                                                  spyrecode **out_code);

// The rules between commands; spyrecode_read has applied them. Messages name the command.
SPYRE_MUST_CHECK spyre_status spyrecode_verify(const spyrecode *code);

// Executes a COMPUTE_ON_HOST: fills output[0..command->byte_count). `granules` has an entry a
// symbol and may be null without any.
SPYRE_MUST_CHECK spyre_status spyrecode_correct(const spyrecode_command *command,
                                                const uint64_t *arguments,
                                                uint32_t argument_count, const int64_t *granules,
                                                uint8_t *output);

// An expression at these sizes. SPYRE_INVALID_ARGUMENT beyond 64 bits.
SPYRE_MUST_CHECK spyre_status spyrecode_evaluate(const spyrecode_sizes *sizes, uint32_t expression,
                                                 const int64_t *granules, int64_t *out_value);

// What the program takes on trust at these sizes: `operand` with its variations in place.
SPYRE_MUST_CHECK spyre_status spyrecode_operand_at(const spyrecode_sizes *sizes,
                                                   const spyrecode_operand *operand,
                                                   const int64_t *granules,
                                                   spyrecode_operand *out_operand);

// The next dim of the layout, from d on, that has more than one index, or its rank.
uint32_t spyrecode_longer_dim(const spyre_layout *layout, uint32_t d);

// Whether tensors of the two layouts have the same elements in the same places.
bool spyrecode_same_places(const spyre_layout *a, const spyre_layout *b);

// Field `field` of an operand, as its variations number them.
static inline int64_t *spyrecode_operand_field(spyrecode_operand *operand, uint32_t field)
{
    if (field == 0) return &operand->least_bytes;
    spyrecode_walk *walk = &operand->walks[(field - 1) / 2];
    return field % 2 ? &walk->step_bytes : &walk->count;
}

// The other way round: the program in the code and what its arguments stand for, in `memory`.
// `out_arguments` has program->arg_count entries. SPYRE_UNSUPPORTED when the code is not of the
// form that spyrecode_build gives (that of another back-end).
SPYRE_MUST_CHECK spyre_status spyrecode_program(arena *memory, const spyrecode *code,
                                                isa_program **out_program,
                                                const spyrecode_argument **out_arguments);

#endif
