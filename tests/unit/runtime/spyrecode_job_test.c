// SPDX-License-Identifier: Apache-2.0
//
// A directory of SpyreCode on the card.
#include "support/scratch.h"
#include "unit/card/program.h"

#include <unistd.h>

#include "base/file.h"
#include "runtime/spyrecode_job.h"

enum { COUNT = 32 };

// argument 2 = argument 0 + argument 1.
static isa_program *add_program(void)
{
    isa_program *p = new_program(3);
    begin_kernel(p, 1, 0);
    isa_operand a = in_lx(0, SPYRE_FORMAT_IEEE_FP32), b = in_lx(256, SPYRE_FORMAT_IEEE_FP32);
    isa_operand from[3];
    for (uint16_t k = 0; k < 3; k++)
        from[k] = in_memory(k, ISA_NO_SLOT, 0, SPYRE_FORMAT_IEEE_FP32);
    emit_flat(p, ISA_LOAD, COUNT, 2, (isa_operand[]){a, from[0]});
    emit_flat(p, ISA_LOAD, COUNT, 2, (isa_operand[]){b, from[1]});
    signal_to(p, ISA_QUEUE_LOAD, 0);
    wait_for(p, ISA_QUEUE_SFP, 0);
    emit_flat(p, ISA_VECTOR, COUNT, 3, (isa_operand[]){a, a, b})->op = OPFUNC_ADD;
    signal_to(p, ISA_QUEUE_SFP, 1);
    wait_for(p, ISA_QUEUE_STORE, 1);
    emit_flat(p, ISA_STORE, COUNT, 2, (isa_operand[]){from[2], a});
    end_kernel(p);
    emit(p, ISA_HALT);
    return p;
}

static void write_code(const char *directory)
{
    float threes[COUNT];
    for (int n = 0; n < COUNT; n++) threes[n] = 3.0f;
    const spyrecode_argument arguments[3] = {
        {.kind = SPYRECODE_LAUNCH, .index = 0},
        {.kind = SPYRECODE_CONSTANTS, .byte_count = sizeof threes, .bytes = threes},
        {.kind = SPYRECODE_LAUNCH, .index = 1}};
    isa_program *p = add_program();
    spyrecode *code;
    assert_ok(spyrecode_build(p->memory, p, arguments, NULL, &code));
    assert_ok(spyrecode_write(code, directory));
    free_program(p);
}

static void run_code(const char *directory)
{
    arena *memory = arena_create();
    spyrecode *code;
    job *j;
    uint32_t inputs;
    assert_ok(spyrecode_read(memory, directory, &code));
    isa_program *program;
    const spyrecode_argument *arguments;
    assert_ok(spyrecode_program(memory, code, &program, &arguments));
    assert_ok(code_create_job(memory, program, arguments, "adder", &j, &inputs));
    assert_int_equal(inputs, 2);
    spyre_context *context;
    assert_ok(spyre_context_create(1, &context));
    uint64_t addresses[2];
    for (int n = 0; n < 2; n++)
        assert_ok(spyre_memory_allocate(context, 0, 0, COUNT * 4, &addresses[n]));
    const int64_t size[1] = {COUNT};
    const spyre_view dense = {.rank = 1, .size = {COUNT}, .stride = {1}};
    spyre_layout layout;
    assert_ok(spyre_layout_default(size, 1, SPYRE_DTYPE_F32, &layout));
    float values[COUNT], back[COUNT];
    for (int n = 0; n < COUNT; n++) values[n] = (float)n;
    spyre_transfer transfer = {.address = addresses[0], .layout = &layout, .storage = &dense,
                               .dtype = SPYRE_DTYPE_F32};
    assert_ok(spyre_copy_to_card(context, &transfer, values));
    assert_ok(job_launch(context, 0, 0, j, addresses, NULL, NULL));
    transfer.address = addresses[1];
    assert_ok(spyre_copy_to_host(context, &transfer, back));
    for (int n = 0; n < COUNT; n++) assert_true(back[n] == (float)n + 3.0f);
    job_destroy(j);
    spyre_context_destroy(context);
    arena_destroy(memory);
}

static void spyrecode_job__runs_from_its_directory(void **state)
{
    (void)state;
    char directory[SCRATCH_BYTES], path[SCRATCH_BYTES + 16];
    assert_non_null(scratch_make(directory));
    write_code(directory);
    run_code(directory);
    static const char *const names[] = {"spyrecode.json", "init.bin"};
    for (int n = 0; n < 2; n++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[n]);
        assert_ok(file_remove(path));
    }
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(spyrecode_job__runs_from_its_directory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
