// SPDX-License-Identifier: Apache-2.0
#include "unit/isa/sample.h"

#include "isa/binary.h"

static uint8_t *encode_sample(arena *memory, size_t *count)
{
    uint8_t *bytes = NULL;
    assert_ok(isa_encode(memory, sample_program(memory), &bytes, count));
    return bytes;
}

static void seal(uint8_t *bytes, size_t count)
{
    uint64_t checksum = binary_checksum(bytes, count, 2 * 8);
    memcpy(bytes + BINARY_AT_CHECKSUM, &checksum, sizeof checksum);
}

static void encode__decode_gives_the_same_program(void **state)
{
    (void)state;
    arena *memory = arena_create();
    size_t count, again_count;
    uint8_t *bytes = encode_sample(memory, &count), *again;
    isa_program *program;
    assert_ok(isa_decode(memory, bytes, count, &program));
    assert_string_equal(sample_print(memory, program), sample_text);
    assert_ok(isa_encode(memory, program, &again, &again_count));
    assert_int_equal(again_count, count);
    assert_memory_equal(again, bytes, count);
    arena_destroy(memory);
}

static void encode__header(void **state)
{
    (void)state;
    arena *memory = arena_create();
    size_t count;
    uint8_t *bytes = encode_sample(memory, &count);
    assert_memory_equal(bytes, "SPYRECOD", 8);
    assert_int_equal(bytes[BINARY_AT_ARGS], 2);
    assert_int_equal(bytes[ISA_ARGUMENT_TABLE_OFFSET], 0);
    // The sizes of the arguments follow the table: 65536 and 0.
    assert_int_equal(bytes[ISA_ARGUMENT_TABLE_OFFSET + 2 * 8 + 2], 1);
    arena_destroy(memory);
}

// What follows the program is not counted; what begins with none, or with a part of the mark, has
// 0.
static void encode__image_bytes(void **state)
{
    (void)state;
    arena *memory = arena_create();
    size_t count;
    uint8_t *bytes = encode_sample(memory, &count), *longer = arena_alloc(memory, count + 100);
    memcpy(longer, bytes, count);
    assert_int_equal(isa_image_bytes(bytes, count), count);
    assert_int_equal(isa_image_bytes(longer, count + 100), count);
    assert_int_equal(isa_image_bytes(bytes, count - 1), count - 1);
    assert_int_equal(isa_image_bytes(bytes, 8), 8);
    assert_int_equal(isa_image_bytes(bytes, 7), 0);
    longer[0] = 'T';
    assert_int_equal(isa_image_bytes(longer, count), 0);
    arena_destroy(memory);
}

static void encode__unused_fields_cost_nothing(void **state)
{
    (void)state;
    arena *memory = arena_create();
    size_t small, large;
    uint8_t *bytes;
    isa_program *program;
    assert_ok(isa_parse(memory, "program\ncode\nhalt", "t", &program));
    assert_ok(isa_encode(memory, program, &bytes, &small));
    assert_int_equal(small, BINARY_HEADER_BYTES + 1);
    assert_ok(isa_parse(memory, "program\ncode\nloop 5 endloop halt", "t", &program));
    assert_ok(isa_encode(memory, program, &bytes, &large));
    assert_int_equal(large, small + 3);
    arena_destroy(memory);
}

static void encode__equal_parameter_rows_are_stored_once(void **state)
{
    (void)state;
    arena *memory = arena_create();
    size_t one, two;
    uint8_t *bytes;
    isa_program *program;
    static const char *const sources[] = {
        "program\nkernel 0 \"a\" cores 1 slots 2\ncore 0: 1 2\ncode\nhalt",
        "program\nkernel 0 \"a\" cores 1 slots 2\ncore 0: 1 2\n"
        "kernel 1 \"b\" cores 2 slots 2\ncore 0: 1 2\ncode\nhalt"};
    assert_ok(isa_parse(memory, sources[0], "t", &program));
    assert_ok(isa_encode(memory, program, &bytes, &one));
    assert_ok(isa_parse(memory, sources[1], "t", &program));
    assert_ok(isa_encode(memory, program, &bytes, &two));
    assert_int_equal(two - one, BINARY_KERNEL_BYTES + 3);
    assert_ok(isa_decode(memory, bytes, two, &program));
    assert_int_equal(program->kernels.items[1].parameters[1], 2);
    arena_destroy(memory);
}

static void encode__argument_table_is_not_sealed(void **state)
{
    (void)state;
    arena *memory = arena_create();
    size_t count;
    uint8_t *bytes = encode_sample(memory, &count);
    isa_program *program;
    memset(bytes + ISA_ARGUMENT_TABLE_OFFSET, 0xAB, 2 * 8);
    assert_ok(isa_decode(memory, bytes, count, &program));
    arena_destroy(memory);
}

static void decode_refuses(uint8_t *bytes, size_t count, const char *message)
{
    arena *memory = arena_create();
    isa_program *program;
    assert_error(isa_decode(memory, bytes, count, &program), SPYRE_INVALID_FORMAT, message);
    arena_destroy(memory);
}

static void encode__damage_is_named(void **state)
{
    (void)state;
    arena *memory = arena_create();
    size_t count;
    uint8_t *bytes = encode_sample(memory, &count);
    decode_refuses(bytes, 100, "program: 100 bytes, shorter than its header");
    decode_refuses(bytes, count - 1, "the header says");
    bytes[0] ^= 1;
    decode_refuses(bytes, count, "program: does not begin with SPYRECOD");
    bytes[0] ^= 1;
    bytes[BINARY_AT_VERSION] = 9;
    decode_refuses(bytes, count, "program: version 9, expected 1");
    bytes[BINARY_AT_VERSION] = BINARY_VERSION;
    bytes[count - 5] ^= 1;
    decode_refuses(bytes, count, "program: wrong checksum");
    bytes[count - 5] ^= 1;
    bytes[BINARY_AT_CODE_BYTES]++;
    decode_refuses(bytes, count, "program: the sections have");
    arena_destroy(memory);
}

// Without the shield of the checksum: every outcome is an error or a verified program that encodes
// to the same bytes.
static void encode__mutations(void **state)
{
    (void)state;
    arena *kept = arena_create();
    size_t count;
    uint8_t *bytes = encode_sample(kept, &count), *mutated = arena_alloc(kept, count);
    uint64_t seed = 11;
    uint32_t accepted = 0;
    for (int trial = 0; trial < 20000; trial++) {
        arena *memory = arena_create();
        isa_program *program;
        memcpy(mutated, bytes, count);
        uint32_t changes = 1 + (uint32_t)check_random(&seed) % 3;
        for (uint32_t n = 0; n < changes; n++) {
            size_t at = (size_t)(check_random(&seed) >> 16) % count;
            // Parameter rows fill most of the file; the rest gets half of the changes.
            if (check_random(&seed) >> 63) at = at % 2 ? at % 256 : count - 1 - at % 800;
            mutated[at] = (uint8_t)(check_random(&seed) >> 40);
        }
        if (mutated[BINARY_AT_ARGS] == 2 && mutated[BINARY_AT_ARGS + 1] == 0) seal(mutated, count);
        spyre_status status = isa_decode(memory, mutated, count, &program);
        if (!status) {
            uint8_t *again;
            size_t again_count;
            accepted++;
            assert_ok(isa_encode(memory, program, &again, &again_count));
        }
        spyre_status_free(status);
        arena_destroy(memory);
    }
    assert_true(accepted > 0 && accepted < 20000);
    arena_destroy(kept);
}

static void encode__truncations(void **state)
{
    (void)state;
    arena *kept = arena_create();
    size_t count;
    uint8_t *bytes = encode_sample(kept, &count);
    for (size_t length = 0; length < count; length++) {
        arena *memory = arena_create();
        uint8_t *part = arena_alloc(memory, length);
        isa_program *program;
        memcpy(part, bytes, length);
        spyre_status status = isa_decode(memory, part, length, &program);
        assert_int_equal(spyre_status_code(status), SPYRE_INVALID_FORMAT);
        spyre_status_free(status);
        arena_destroy(memory);
    }
    arena_destroy(kept);
}

// Neither the place in the source nor the process is part of a digest; sizes are.
static void encode__digest(void **state)
{
    (void)state;
    arena *memory = arena_create();
    isa_program *program;
    uint32_t first, elsewhere, larger;
    assert_ok(isa_parse(memory, sample_text, "sample", &program));
    assert_ok(isa_digest(program, &first));
    program->kernels.items[0].location = "another.py:7";
    assert_ok(isa_digest(program, &elsewhere));
    int64_t bytes[] = {65536, 128};
    program->arg_bytes = bytes;
    assert_ok(isa_digest(program, &larger));
    assert_int_equal(first, elsewhere);
    assert_int_not_equal(first, larger);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encode__decode_gives_the_same_program),
        cmocka_unit_test(encode__header),
        cmocka_unit_test(encode__image_bytes),
        cmocka_unit_test(encode__unused_fields_cost_nothing),
        cmocka_unit_test(encode__equal_parameter_rows_are_stored_once),
        cmocka_unit_test(encode__argument_table_is_not_sealed),
        cmocka_unit_test(encode__damage_is_named),
        cmocka_unit_test(encode__mutations),
        cmocka_unit_test(encode__truncations),
        cmocka_unit_test(encode__digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
