// SPDX-License-Identifier: Apache-2.0
//
// Listings: what parses encodes, decodes, and prints as a listing that parses to the same bytes.
#include "fuzz/fuzz.h"
#include "isa/isa.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    isa_program *program, *decoded, *parsed;
    if (fuzz_ok(isa_parse(memory, fuzz_string(memory, bytes, count), "input", &program))) {
        uint8_t *once, *twice;
        size_t once_count, twice_count;
        text printed = {0};
        fuzz_must(isa_encode(memory, program, &once, &once_count));
        fuzz_must(isa_decode(memory, once, once_count, &decoded));
        isa_print(decoded, &printed);
        fuzz_must(isa_parse(memory, text_string(&printed), "printed", &parsed));
        fuzz_must(isa_encode(memory, parsed, &twice, &twice_count));
        FUZZ_HOLDS(once_count == twice_count && memcmp(once, twice, once_count) == 0);
        text_free(&printed);
    }
    arena_destroy(memory);
    return 0;
}
