// SPDX-License-Identifier: Apache-2.0
//
// Programs of the card. One program a bundle, the same for every core (SPMD); what differs between
// cores is a row of parameters per (kernel, core). An instruction works on a tile described by
// extents and, per operand, a base and byte strides, so its decode cost vanishes.
//
// Address of element i of operand o inside loops with indices l:
//     base(o) + sum over dims d of i[d] * stride[d] + sum over loops n of l[n] * loop_stride[n]
//     base(o) = offset                                        for LX
//             = arguments[arg] + parameter[slot] + offset     for memory (slot ISA_NO_SLOT: 0)
//             = parameter[slot] + offset                      for numbers
// Loop 0 is the outermost enclosing loop; loops may stand around kernels and inside them, kernels
// do not nest. All offsets and strides are bytes. Tokens are zero when a kernel begins. A SEND
// never waits for its receiver: the message may be received in a later kernel. A VECTOR identity
// between equal formats copies bits.
#ifndef ISA_ISA_H
#define ISA_ISA_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/vec.h"
#include "tensor/opfunc.h"

enum {
    ISA_CORES = 32,
    ISA_LX_BYTES = 2 << 20,
    ISA_SEGMENTS = 8,
    ISA_MAX_DIMS = 8,
    ISA_MAX_LOOPS = 8,
    ISA_MAX_OPERANDS = 6,
    ISA_MAX_TOKENS = 32,
    ISA_NO_SLOT = 0xFFFF,
};

#define ISA_SEGMENT_BYTES 0x400000000ULL // 16 GiB of memory

// Bound of offsets, strides, parameters and of what an operand reaches, in bytes either way: far
// beyond the card's 2^37, and sums of a hundred such numbers do not overflow.
#define ISA_MOST_REACH ((int64_t)1 << 56)

typedef enum {
#define ISA_ROW(opcode, mnemonic, queue, roles, uses, summary) ISA_##opcode,
#include "isa/isa.def"
#undef ISA_ROW
    ISA_OPCODE_COUNT
} isa_opcode;

typedef enum {
    ISA_QUEUE_SEQ,
    ISA_QUEUE_LOAD,
    ISA_QUEUE_STORE,
    ISA_QUEUE_RING,
    ISA_QUEUE_PT,
    ISA_QUEUE_SFP,
    ISA_QUEUE_COUNT,
    ISA_QUEUE_ANY = ISA_QUEUE_COUNT,    // WAIT and SIGNAL name their queue
} isa_queue;

// NUMBER: no bytes; the element that an operand has at an address is that address.
typedef enum { ISA_SPACE_LX, ISA_SPACE_MEMORY, ISA_SPACE_NUMBER } isa_space;

typedef struct {
    isa_space space;
    spyre_format format;
    uint16_t arg;                               // memory: entry of the program's argument table
    uint16_t slot;                              // memory, number: parameter of the core, added
    int64_t offset;
    int64_t loop_stride[ISA_MAX_LOOPS];
    int64_t stride[ISA_MAX_DIMS];
} isa_operand;

// MATMUL: extent = {rows, column sticks, k}; with E elements a stick (of operand 1's format):
//   operand 1 (A): row r, index k at r * stride[0] + (k / E) * stride[2] + (k % E) * element
//   operand 2 (B): index k, column stick n, lane j at k * stride[2] + n * stride[1] + j * element
//   operand 0 (fp32): row r, column stick n, lane j at r * stride[0] + n * stride[1] + j * 4
//   acc = acc + a * b in fp32 (fmaf), k ascending.
// RANK: operand 0 holds entries (tensor/ranking.h) as IEEE_INT64, the first ones along dim 0. Dims
// along which it has stride 0 count candidates: operand 1's elements along them enter in ascending
// order, the last dim fastest, at operand 2's position and those behind it. Operand 1 has stride 0
// along dim 0, operand 2 everywhere. Operand 3, where there is one, is an entry for each ranking:
// only what is behind it enters.
// SCAN: operand 1 holds running values (tensor/running_value.h), 64 bits as IEEE_INT64. Along dims
// in which it has stride 0 elements of operand 2 enter in ascending order, the last dim fastest;
// operand 0 is the result after each, and moves along all dims. Operand 3, of opfuncs that give
// positions, is that of the first element.
// VECTOR layernormscale: operand 1 is the mean, operand 2 the mean square (both any format).
typedef struct {
    isa_opcode opcode;
    isa_queue queue;
    opfunc op;                                  // VECTOR; accumulator of REDUCE, FOLD; a RANK
    uint8_t operand_count;
    uint8_t dim_count;                          // extents used, outermost first
    uint16_t token;                             // WAIT, SIGNAL; SEND, RECEIVE: slot of the peer
    uint32_t count;                             // LOOP: iterations; KERNEL: kernel index
    uint32_t extent[ISA_MAX_DIMS];              // >= 1
    float constant[OPFUNC_MAX_PARAMETERS];
    int64_t row_stride, row_count;              // ROWS, see isa_row_offset()
    uint32_t row_lanes;                         // rows that share a stick, side by side; 0: none do
    isa_operand operand[ISA_MAX_OPERANDS];      // in a program operand_count of them, no more
} isa_instruction;

// One kernel: a step of the bundle.
typedef struct {
    uint32_t active_cores;                      // bit c: core c takes part
    uint32_t slot_count;
    const int64_t *parameters;                  // [core][slot], ISA_CORES rows
    const char *name;                           // "3_batchmatmul"
    const char *location;                       // user's source line, or ""
} isa_kernel;

static inline bool isa_is_active(const isa_kernel *kernel, uint32_t core)
{
    return kernel->active_cores >> core & 1u;
}

// The parameter of a slot, 0 of ISA_NO_SLOT.
static inline int64_t isa_parameter(const isa_kernel *kernel, uint32_t core, uint32_t slot)
{
    if (slot == ISA_NO_SLOT) return 0;
    return kernel->parameters[(size_t)core * kernel->slot_count + slot];
}

// The core that a SEND or RECEIVE of a verified program names: its token.
static inline uint32_t isa_peer(const isa_kernel *kernel, uint32_t core, uint32_t token)
{
    return (uint32_t)isa_parameter(kernel, core, token);
}

static inline bool isa_reduces(isa_opcode opcode)
{
    return opcode == ISA_REDUCE || opcode == ISA_REDUCESQ;
}

// A number of the program (isa/corrections.h), and the value that a launch puts there.
typedef struct {
    uint32_t number, value;
} isa_correction;

typedef struct {
    arena *memory;
    uint32_t arg_count;                         // entries of the argument table
    const int64_t *arg_bytes;                   // size of each argument, 0 unknown
    uint32_t value_count;                       // entries of the value table behind it
    VEC(isa_correction) corrections;            // ascending; without values the program is what its
                                                // numbers say
    VEC(isa_instruction *) code;
    VEC(isa_kernel) kernels;
} isa_program;

// What an instruction uses besides its operands. Fields that are not used are zero.
typedef enum {
    ISA_USES_NONE,
    ISA_USES_TOKEN, // token
    ISA_USES_SLOT,  // token, as the parameter slot of a peer
    ISA_USES_COUNT, // count
    ISA_USES_OP,    // op; elsewhere it is ADD, the zero of the enumeration
    ISA_USES_ROWS,  // row_stride, row_count, row_lanes
    ISA_USES_OP_ROWS,
} isa_use;

// A row of isa.def.
typedef struct {
    const char *mnemonic;
    isa_queue queue;
    const char *roles;                          // a letter an operand, most operands
    isa_use uses;
    const char *summary;
} isa_info;
extern const isa_info isa_table[ISA_OPCODE_COUNT];

static inline const isa_info *isa_describe(isa_opcode opcode)
{
    assert((unsigned)opcode < ISA_OPCODE_COUNT);
    return &isa_table[opcode];
}

static inline bool isa_uses_op(isa_opcode opcode)
{
    isa_use uses = isa_describe(opcode)->uses;
    return uses == ISA_USES_OP || uses == ISA_USES_OP_ROWS;
}

static inline bool isa_uses_rows(isa_opcode opcode)
{
    isa_use uses = isa_describe(opcode)->uses;
    return uses == ISA_USES_ROWS || uses == ISA_USES_OP_ROWS;
}

static inline bool isa_in_memory(isa_opcode opcode, uint32_t operand)
{
    char role = isa_describe(opcode)->roles[operand];
    return role == 'R' || role == 'W' || role == 'U';
}

static inline bool isa_is_number(isa_opcode opcode, uint32_t operand)
{
    return isa_describe(opcode)->roles[operand] == 'n';
}

static inline isa_space isa_space_of(isa_opcode opcode, uint32_t operand)
{
    if (isa_is_number(opcode, operand)) return ISA_SPACE_NUMBER;
    return isa_in_memory(opcode, operand) ? ISA_SPACE_MEMORY : ISA_SPACE_LX;
}

static inline bool isa_writes(isa_opcode opcode, uint32_t operand)
{
    char role = isa_describe(opcode)->roles[operand];
    return role == 'w' || role == 'u' || role == 'W' || role == 'U';
}

// Whether the instruction reads bytes of an operand; an updated one it reads and writes.
static inline bool isa_reads(isa_opcode opcode, uint32_t operand)
{
    char role = isa_describe(opcode)->roles[operand];
    return role != 'n' && (!isa_writes(opcode, operand) || role == 'u' || role == 'U');
}

// Whether the instruction combines other operands into operand 0, over dims that the latter lacks.
static inline bool isa_accumulates(isa_opcode opcode)
{
    const char *roles = isa_describe(opcode)->roles;
    return roles[0] == 'u' && roles[1];
}

// Whether a REDUCE or FOLD works on int32.
bool isa_accumulates_integers(const isa_instruction *i);

// True for what writes memory.
static inline bool isa_stores(isa_opcode opcode)
{
    return isa_writes(opcode, 0) && isa_in_memory(opcode, 0);
}

// The operand in memory of which operand 2 chooses rows; ISA_NO_OPERAND without one.
#define ISA_NO_OPERAND UINT32_MAX
static inline uint32_t isa_row_operand(isa_opcode opcode)
{
    if (!isa_uses_rows(opcode)) return ISA_NO_OPERAND;
    return isa_stores(opcode) ? 0 : 1;
}

// The bytes from row 0 to a row: rows lie row_stride apart, or the elements of row_lanes rows side
// by side in sticks that lie row_stride apart. Ascending in the row where they share sticks.
static inline int64_t isa_row_offset(const isa_instruction *i, int64_t row)
{
    int64_t lanes = i->row_lanes;
    if (lanes == 0) return row * i->row_stride;
    int64_t element = spyre_format_bytes(i->operand[isa_row_operand(i->opcode)].format);
    return row / lanes * i->row_stride + row % lanes * element;
}

const char *isa_queue_name(isa_queue queue);

isa_program *isa_program_create(arena *memory);

// Adds a copy of an instruction behind the others of a program.
SPYRE_MUST_CHECK spyre_status isa_append(isa_program *program, const isa_instruction *instruction);

// A copy of an instruction, which may belong to a program, with room for more operands.
isa_instruction isa_copy(const isa_instruction *instruction);

// A copy with room for no more operands, or null when memory is short.
isa_instruction *isa_clone(arena *memory, const isa_instruction *instruction);

// Structure: loops and kernels nest, extents and counts in range, LX operands inside 2 MiB for
// every iteration, opfuncs with the right operand counts, tokens < ISA_MAX_TOKENS. The message
// names the instruction, operand, value and rule.
SPYRE_MUST_CHECK spyre_status isa_verify(const isa_program *program);

// Binary form: header (magic "SPYRECOD", version, sizes, checksum), argument table, value table,
// sizes, corrections, kernel table, parameter rows, code, strings. The argument table starts at
// ISA_ARGUMENT_TABLE_OFFSET, eight bytes an entry, as the value table behind it: what program
// correction patches at launch.
enum { ISA_ARGUMENT_TABLE_OFFSET = 128 };
SPYRE_MUST_CHECK spyre_status isa_encode(arena *memory, const isa_program *program,
                                         uint8_t **out_bytes, size_t *out_count);
SPYRE_MUST_CHECK spyre_status isa_decode(arena *memory, const uint8_t *bytes, size_t count,
                                         isa_program **out_program);

// A number of what a verified program does and how large its arguments are: the same for equal
// programs, whatever source lines they come from, in every process.
SPYRE_MUST_CHECK spyre_status isa_digest(const isa_program *program, uint32_t *out_digest);

// Bytes of the program that a file begins with: fewer than the file's where constants follow. 0
// when it begins with no program; `count` when the stated length makes no sense, which isa_decode()
// then complains about.
size_t isa_image_bytes(const uint8_t *bytes, size_t count);

// Text form, readable and exact: parse(print(p)) == p. docs/isa.md specifies it.
void isa_print(const isa_program *program, text *out);
SPYRE_MUST_CHECK spyre_status isa_parse(arena *memory, const char *source, const char *file_name,
                                        isa_program **out_program);

#endif
