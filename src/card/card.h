// SPDX-License-Identifier: Apache-2.0
//
// The emulated card: 8 segments x 16 GiB of lazily reserved memory, 32 cores with 2 MiB of LX
// each, a ring between them. Functions of one card may be called from one thread at a time, except
// card_memory(), which only translates addresses.
#ifndef CARD_CARD_H
#define CARD_CARD_H

#include "isa/isa.h"

enum { CARD_SEGMENTS = ISA_SEGMENTS, CARD_FAULT_TEXT = 256 };
#define CARD_SEGMENT_BYTES ISA_SEGMENT_BYTES

typedef struct card card;
typedef struct card_program card_program;

// EXACT executes queue by queue and instruction by instruction, in an order that only tokens
// restrain; FAST runs kernels of host code over whole tiles. Same bytes in memory and in live LX.
typedef enum { CARD_FAST, CARD_EXACT } card_mode;

// Reserves memory; SPYRE_OUT_OF_MEMORY when the host refuses the address space.
SPYRE_MUST_CHECK spyre_status card_create(card **out_card);
void card_destroy(card *c);

void card_set_mode(card *c, card_mode mode);

// Looks for faults of programs that happen to go well: races between queues and between cores, LX
// read but never written, misaligned elements (card/machine/check.h). Launches then take one host
// thread and several times as long. SPYRE_CARD_CHECK=1 switches it on from the start.
SPYRE_MUST_CHECK spyre_status card_set_check(card *c, bool on);

// Host pointer to `bytes` bytes at a card address, or null when they leave their segment.
void *card_memory(card *c, uint64_t address, uint64_t bytes);

// Returns the pages of a range to the host; they read as zero afterwards.
void card_memory_discard(card *c, uint64_t address, uint64_t bytes);

// Memory in pieces that is one range, too: from then on the bytes at `address` are those of the
// pieces in their order, and either way of access sees what the other has written. Addresses and
// bytes are multiples of card_page_bytes(); all of it begins as zeros. SPYRE_OUT_OF_MEMORY when the
// host refuses, with nothing changed but contents.
typedef struct {
    uint64_t address, bytes;
} card_piece;
SPYRE_MUST_CHECK spyre_status card_memory_compose(card *c, uint64_t address,
                                                  const card_piece *pieces, uint32_t count);

// Undoes it: range and pieces are memory of their own, and zeros.
void card_memory_separate(card *c, uint64_t address, const card_piece *pieces, uint32_t count);
uint64_t card_page_bytes(void);

// Translates a verified program once into what the card executes. The program must outlive what is
// made of it.
SPYRE_MUST_CHECK spyre_status card_load(card *c, const isa_program *program,
                                        card_program **out_program);

// The same; bit k of `temporary` says that argument k is memory of the program alone, undefined
// when it begins and of no use when it has ended: FAST may leave out what it stores there.
SPYRE_MUST_CHECK spyre_status card_load_with(card *c, const isa_program *program,
                                             uint32_t temporary, card_program **out_program);
void card_unload(card *c, card_program *program);

// Writes what passes make of a program for a host of so many threads: the plan after each of them
// (docs/card.md). Executes nothing.
SPYRE_MUST_CHECK spyre_status card_print_plan(const isa_program *program, uint32_t threads,
                                              text *out);

// Bytes of the host that it takes.
size_t card_program_bytes(const card_program *program);

// Says that LX is not read after the program: FAST may then leave out loads whose bytes it can
// take from memory, and LX at the end is undefined.
void card_program_forget_lx(card_program *program);

// One of the eight address windows of a launch: an access through argument k must stay inside
// [base, base + limit). CARD_HALVES + an address of the host means elements of SEN169_FP16 that
// lie there as IEEE_FP16, in as many bytes: the launch converts them where it loads and stores, as
// a transfer would, so that they need not lie on the card at all.
#define CARD_HALVES (UINT64_C(1) << 63)
typedef struct {
    uint64_t base, limit;
} card_argument;

// True when the program may take an argument as halves: nothing but row fusions touches it, which
// only load it or only store it. From any thread.
bool card_takes_halves(const card_program *program, uint32_t argument);

// True when all of a launch would go as the plan says, as one with halves must: no exact mode, no
// checker, arguments apart, no fault. From any thread.
bool card_goes_as_planned(const card *c, const card_program *program,
                          const card_argument *arguments);

// The machine state of a fault, for messages.
typedef struct {
    uint32_t core, instruction;
    uint64_t address;
    char kernel[64];
    char location[128];
    char text[CARD_FAULT_TEXT];
    bool of_index;  // of a gather's or scatter's
} card_fault;

// Runs a program to its end. arguments[0..arg_count). On a fault (address outside its argument, LX
// out of range, deadlock of tokens or ring) returns SPYRE_DEVICE_FAULT, on one of an index that a
// gather or scatter reads SPYRE_INDEX_FAULT, with core, kernel, instruction and address in the
// message and, when `out_fault` is not null, in it; memory keeps what was written before.
SPYRE_MUST_CHECK spyre_status card_launch(card *c, card_program *program,
                                          const card_argument *arguments, uint32_t arg_count,
                                          card_fault *out_fault);

// Asks the launch under way to end before its next step; until `stop` is false again launches fail
// with SPYRE_CANCELLED, and what they would have written is undefined. From any thread.
void card_set_stop(card *c, bool stop);

// Clears every LX (SPYRE_WIPE_LX=1 does so before each launch).
void card_wipe_lx(card *c);

// LX of a core, ISA_LX_BYTES bytes, for tests; a checker takes all of it for written.
uint8_t *card_lx(card *c, uint32_t core);

// What a launch of a kernel uses, found from the program without executing it: docs/card.md.
typedef enum { CARD_MEMORY, CARD_PT, CARD_SFP, CARD_RING, CARD_RESOURCES } card_resource;

typedef struct {
    int64_t runs;                           // of the kernel in one launch; sums: kernels run
    // Of all cores in all runs. Memory counts a transfer that cores share once; LX what
    // instructions read and write there; hops are the steps of messages from core to core.
    int64_t memory_read_bytes, memory_written_bytes, lx_bytes;
    int64_t ring_bytes, ring_hops;
    int64_t mac_count, vector_element_count;
    double us;                              // that all runs add to the program's time
    double overlap_us;                      // of all runs beside kernels before them; not in us
    // Of both: with the memory busy, and with a unit of a core busy (the core with the most); with
    // neither PT nor SFP busy, on average over the cores.
    double busy_us[CARD_RESOURCES], stall_us;
    bool estimated;                         // no steady state was found: a lower bound
} card_counters;

// Times every kernel of a verified program: out_kernels[program->kernels.count]. Takes time and
// memory that do not depend on the sizes of tensors. SPYRE_DEVICE_FAULT names kernel, core and
// instruction of queues that would wait for each other for ever.
SPYRE_MUST_CHECK spyre_status card_time(const isa_program *program, card_counters *out_kernels);

// Adds `more` to `sum`.
void card_counters_add(card_counters *sum, const card_counters *more);

// The busiest resource, or CARD_RESOURCES when none is busy half of the time: then it is the order
// of instructions, waits for each other, that takes the time.
card_resource card_bound(const card_counters *counters);

#endif
