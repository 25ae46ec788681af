// SPDX-License-Identifier: Apache-2.0
//
// Program images. The checksum is put right first, so that the decoder behind it is reached. What
// decodes encodes, prints and parses back as the same program, and runs in both modes without harm.
#include "card/card.h"
#include "fuzz/fuzz.h"
#include "isa/binary.h"

enum { MOST_STEPS = 1 << 16, ARGUMENT_BYTES = 1 << 16, MOST_ARGUMENTS = 16 };

static void put_checksum_right(uint8_t *bytes, size_t count)
{
    uint32_t arguments;
    uint64_t size = count, checksum;
    if (count < BINARY_HEADER_BYTES) return;
    memcpy(bytes, BINARY_MAGIC, strlen(BINARY_MAGIC));
    memcpy(bytes + BINARY_AT_BYTES, &size, sizeof size);
    memcpy(&arguments, bytes + BINARY_AT_ARGS, sizeof arguments);
    size_t table = (size_t)arguments * 8;
    if (table > count - BINARY_HEADER_BYTES) return;
    checksum = binary_checksum(bytes, count, table);
    memcpy(bytes + BINARY_AT_CHECKSUM, &checksum, sizeof checksum);
}

// Elements and iterations that one core executes, roughly.
static double weight(const isa_program *program)
{
    double total = 0, repeats[ISA_MAX_LOOPS + 1] = {1};
    uint32_t depth = 0;
    for (uint32_t at = 0; at < program->code.count; at++) {
        const isa_instruction *i = program->code.items[at];
        if (i->opcode == ISA_LOOP) {
            repeats[depth + 1] = repeats[depth] * i->count;
            depth++;
        } else if (i->opcode == ISA_END_LOOP) {
            depth--;
        }
        double elements = i->opcode == ISA_MATMUL ? 64 : 1;
        for (uint32_t d = 0; d < i->dim_count; d++) elements *= i->extent[d];
        total += elements * repeats[depth];
    }
    return total;
}

static void run(card *device, const isa_program *program, card_mode mode)
{
    card_argument arguments[MOST_ARGUMENTS];
    card_program *loaded;
    if (!fuzz_ok(card_load(device, program, &loaded))) return;
    for (uint32_t k = 0; k < MOST_ARGUMENTS; k++)
        arguments[k] = (card_argument){k % 7 * CARD_SEGMENT_BYTES, ARGUMENT_BYTES};
    card_set_mode(device, mode);
    fuzz_ok(card_launch(device, loaded, arguments, MOST_ARGUMENTS, NULL));
    card_unload(device, loaded);
}

static void check_forms(arena *memory, const isa_program *program)
{
    isa_program *decoded, *parsed;
    uint8_t *encoded[3];
    size_t count[3];
    text printed = {0};
    fuzz_must(isa_encode(memory, program, &encoded[0], &count[0]));
    fuzz_must(isa_decode(memory, encoded[0], count[0], &decoded));
    fuzz_must(isa_encode(memory, decoded, &encoded[1], &count[1]));
    isa_print(program, &printed);
    fuzz_must(isa_parse(memory, text_string(&printed), "printed", &parsed));
    fuzz_must(isa_encode(memory, parsed, &encoded[2], &count[2]));
    text_free(&printed);
    for (int n = 1; n < 3; n++) {
        FUZZ_HOLDS(count[n] == count[0]);
        FUZZ_HOLDS(memcmp(encoded[n], encoded[0], count[0]) == 0);
    }
}

static void check_runs(const isa_program *program)
{
    static card *device;
    if (!device) fuzz_must(card_create(&device));
    if (program->arg_count > MOST_ARGUMENTS || weight(program) > MOST_STEPS) return;
    run(device, program, CARD_EXACT);
    run(device, program, CARD_FAST);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    isa_program *program;
    fuzz_ok(isa_decode(memory, bytes, count, &program));
    uint8_t *copy = malloc(count + 1);
    FUZZ_HOLDS(copy);
    memcpy(copy, bytes, count);
    put_checksum_right(copy, count);
    if (fuzz_ok(isa_decode(memory, copy, count, &program))) {
        check_forms(memory, program);
        check_runs(program);
    }
    free(copy);
    arena_destroy(memory);
    return 0;
}
