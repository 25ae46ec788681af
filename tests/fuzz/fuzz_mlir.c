// SPDX-License-Identifier: Apache-2.0
#include "bundle/mlir.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    mlir_program program;
    fuzz_ok(mlir_read(memory, fuzz_string(memory, bytes, count), count, count % 2, &program));
    arena_destroy(memory);
    return 0;
}
