// SPDX-License-Identifier: Apache-2.0
//
// Building, writing, reading, correcting; refusals with their messages; mutated input.
#include "support/scratch.h"
#include "unit/card/program.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "spyrecode/model.h"

static const uint8_t constants[300] = {1, 2, 3};
static const spyrecode_argument arguments[4] = {
    {.kind = SPYRECODE_LAUNCH, .index = 1},
    {.kind = SPYRECODE_POOL, .byte_count = 1000},
    {.kind = SPYRECODE_CONSTANTS, .byte_count = sizeof constants, .bytes = constants},
    {.kind = SPYRECODE_LAUNCH, .index = 0},
};

static isa_program *copy_program(void)
{
    isa_program *p = new_program(4);
    begin_kernel(p, 1, 0);
    isa_operand lx = in_lx(0, SPYRE_FORMAT_IEEE_FP32);
    for (uint16_t k = 0; k < 3; k++) {
        isa_operand from = in_memory(k, ISA_NO_SLOT, 0, SPYRE_FORMAT_IEEE_FP32);
        emit_flat(p, ISA_LOAD, 32, 2, (isa_operand[]){lx, from});
    }
    end_kernel(p);
    emit(p, ISA_HALT);
    return p;
}

static spyrecode *build(isa_program *p)
{
    spyrecode *code;
    assert_ok(spyrecode_build(p->memory, p, arguments, NULL, &code));
    return code;
}

static char *temporary_directory(void)
{
    static char path[SCRATCH_BYTES];
    assert_non_null(scratch_make(path));
    return path;
}

static void remove_directory(const char *path)
{
    static const char *const names[] = {"spyrecode.json", "init.bin"};
    char file[SCRATCH_BYTES + 16];
    for (int n = 0; n < 2; n++) {
        snprintf(file, sizeof file, "%s/%s", path, names[n]);
        assert_ok(file_remove(file));
    }
    rmdir(path);
}

static void code__survives_a_round_trip(void **state)
{
    (void)state;
    isa_program *p = copy_program(), *back;
    spyrecode *code = build(p), *read;
    const char *directory = temporary_directory();
    assert_ok(spyrecode_write(code, directory));
    assert_ok(spyrecode_read(p->memory, directory, &read));
    assert_int_equal(read->space_bytes, code->space_bytes);
    assert_int_equal(read->commands.count, 3);
    const spyrecode_argument *found;
    assert_ok(spyrecode_program(p->memory, read, &back, &found));
    text before = {0}, after = {0};
    isa_print(p, &before);
    isa_print(back, &after);
    assert_string_equal(text_string(&before), text_string(&after));
    text_free(&before);
    text_free(&after);
    for (int k = 0; k < 4; k++) {
        assert_int_equal(found[k].kind, arguments[k].kind);
        assert_int_equal(found[k].index, arguments[k].index);
        assert_int_equal(found[k].byte_count, arguments[k].byte_count);
    }
    assert_memory_equal(found[2].bytes, constants, sizeof constants);
    remove_directory(directory);
    free_program(p);
}

static void code__same_code_same_bytes(void **state)
{
    (void)state;
    isa_program *p = copy_program();
    const char *directory = temporary_directory();
    char *first, *second;
    size_t first_length, second_length;
    const char *path = file_join(p->memory, directory, "spyrecode.json");
    assert_ok(spyrecode_write(build(p), directory));
    assert_ok(file_read(p->memory, path, 1 << 20, &first, &first_length));
    assert_ok(spyrecode_write(build(p), directory));
    assert_ok(file_read(p->memory, path, 1 << 20, &second, &second_length));
    assert_string_equal(first, second);
    assert_non_null(strstr(first, "\"dev_ptr\": \"120259084288\""));
    assert_non_null(strstr(first, "\"dirn\": \"false\""));
    remove_directory(directory);
    free_program(p);
}

static void code__correction_gives_the_argument_table(void **state)
{
    (void)state;
    isa_program *p = copy_program();
    spyrecode *code = build(p);
    const spyrecode_command *host = &code->commands.items[0];
    uint64_t launch[2] = {0x80, 0x400000100}, table[4];
    assert_int_equal(host->byte_count, sizeof table);
    assert_ok(spyrecode_correct(host, launch, 2, NULL, (uint8_t *)table));
    assert_int_equal(table[0], launch[1]);
    assert_int_equal(table[3], launch[0]);
    uint64_t init_end = SPYRECODE_BASE + code->transfers.items[0].byte_count;
    assert_int_equal(table[1], init_end);
    assert_int_equal(table[2], init_end - 384);
    assert_error(spyrecode_correct(host, launch, 1, NULL, (uint8_t *)table), SPYRE_INVALID_ARGUMENT,
                 "launch of 1 arguments, the code takes 2");
    free_program(p);
}

#define PREPARATION                                                                              \
    "\"JobPreparationPlan\":[{\"command\":\"Allocate\",\"properties\":{\"size\":\"4096\"}},"     \
    "{\"command\":\"InitTransfer\",\"properties\":{\"init_bin_file\":\"a.bin\","                 \
    "\"dev_ptr\":\"120259084288\",\"size\":\"1024\"}}]"
#define DEVICE "{\"command\":\"ComputeOnDevice\",\"properties\":{\"job_bin_ptr\":\"120259084288\"}}"
#define HOST(patches)                                                                            \
    "{\"command\":\"ComputeOnHost\",\"properties\":{\"ihandle\":\"iargs\",\"ishape\":[\"2\"],"   \
    "\"ohandle\":\"T\",\"size\":\"16\",\"hcm\":{\"version\":\"1\",\"program_bytes\":\"512\","    \
    "\"patches\":[" patches "]}}}"
#define TRANSFER(handle, size)                                                                   \
    "{\"command\":\"DataTransfer\",\"properties\":{\"dirn\":\"false\",\"host_handle\":\"" handle \
    "\",\"dev_ptr\":\"120259084416\",\"size\":\"" size "\"}}"
#define FOREIGN(input, metadata)                                                                 \
    "{\"command\":\"ComputeOnHost\",\"properties\":{\"ihandle\":\"" input                       \
    "\",\"ishape\":[\"64\",\"16\"],\"ohandle\":\"T\",\"size\":\"16\",\"hcm\":" metadata "}}"
#define TO_HOST(address, size)                                                                   \
    "{\"command\":\"DataTransfer\",\"properties\":{\"dirn\":\"true\",\"host_handle\":\"back\","    \
    "\"dev_ptr\":\"" address "\",\"size\":\"" size "\"}}"
#define PATCH "{\"offset\":\"8\",\"source\":\"argument\",\"index\":\"1\"}"
#define PLAN(commands) "{" PREPARATION ",\"JobExecPlan\":[" commands "]}"

static const struct {
    const char *json, *message;
} refused[] = {
    {"[]", "x.json: $"},
    {"{}", "JobPreparationPlan"},
    {"{" PREPARATION "}", "JobExecPlan"},
    {PLAN(""), "JobExecPlan: no commands"},
    {"{" PREPARATION ",\"JobExecPlan\":[" DEVICE "],\"More\":1}", "More: unknown member"},
    {"{\"JobPreparationPlan\":[{\"command\":\"Allocate\",\"properties\":{\"size\":\"1\"}}],"
     "\"JobExecPlan\":[]}",
     "must hold Allocate and at least one InitTransfer"},
    {"{\"JobPreparationPlan\":[1,2],\"JobExecPlan\":[]}", "JobPreparationPlan[0]"},
    {PLAN("{\"command\":\"Dance\",\"properties\":{}}"), "unknown command \"Dance\""},
    {PLAN("{\"command\":\"ComputeOnDevice\"}"), "properties"},
    {PLAN("{\"command\":\"ComputeOnDevice\",\"properties\":{\"job_bin_ptr\":\"12x\"}}"),
     "job_bin_ptr"},
    {PLAN("{\"command\":\"ComputeOnDevice\",\"properties\":{\"job_bin_ptr\":\"128\"}}"),
     "JobExecPlan[0]: job_bin_ptr 128: must lie in segment 7"},
    {PLAN("{\"command\":\"ComputeOnDevice\",\"properties\":{\"job_bin_ptr\":\"120259084289\"}}"),
     "must be a multiple of 128"},
    {PLAN("{\"command\":\"ComputeOnDevice\",\"properties\":{\"job_bin_ptr\":\"120259088512\"}}"),
     "leave the 4096 that Allocate asks for"},
    {PLAN(TRANSFER("T", "16") "," DEVICE), "JobExecPlan[0]: DataTransfer must follow"},
    {PLAN(HOST(PATCH) "," DEVICE), "JobExecPlan[0]: a transfer and ComputeOnDevice must follow"},
    {PLAN(HOST(PATCH) "," TRANSFER("T", "16") "," HOST(PATCH)),
     "JobExecPlan[2]: ComputeOnHost must be the first"},
    {PLAN(HOST(PATCH) "," DEVICE "," DEVICE), "must be transferred first"},
    {PLAN(HOST(PATCH) "," TRANSFER("U", "16") "," DEVICE), "host_handle \"U\": nothing has"},
    {PLAN(HOST(PATCH) "," TRANSFER("T", "8") "," DEVICE), "size 8: ComputeOnHost gives 16"},
    {PLAN(FOREIGN("", "{\"vdci\":7}") "," TRANSFER("T", "16") "," DEVICE),
     "properties.hcm: Failed to parse SpyreCode command: the vdci field must be"},
    {PLAN(FOREIGN("moon", "{\"vdci\":{}}") "," TRANSFER("T", "16") "," DEVICE),
     "JobExecPlan[0]: ihandle 'moon' not found in pinned buffer map"},
    {PLAN("{\"command\":\"ComputeOnHost\",\"properties\":{\"ihandle\":\"\"}}"),
     "properties: ComputeOnHost command missing 'ishape' property"},
    {PLAN(TO_HOST("0", "-16")), "size: \"-16\": negative value not allowed for unsigned integer"},
    {PLAN(TO_HOST("0", " -16")), "size: \" -16\": negative value not allowed"},
    {PLAN(TO_HOST("17179869056", "256")), "dev_ptr 17179869056: 256 bytes leave the segment"},
    {PLAN(TO_HOST("120259084288", "4224")), "dev_ptr 120259084288: 4224 bytes leave the 4096"},
    {PLAN(HOST(PATCH) "," TO_HOST("0", "16") "," DEVICE),
     "JobExecPlan[1]: the output of ComputeOnHost must be transferred to the card first"},
    {PLAN(HOST("{\"offset\":\"4\",\"source\":\"argument\",\"index\":\"1\"}") ","
          TRANSFER("T", "16") "," DEVICE), "hcm.patches[0]: offset 4: must be a multiple of 8"},
    {PLAN(HOST("{\"offset\":\"16\",\"source\":\"argument\",\"index\":\"1\"}") ","
          TRANSFER("T", "16") "," DEVICE), "offset 16: must be"},
    {PLAN(HOST("{\"offset\":\"0\",\"source\":\"argument\",\"index\":\"2\"}") ","
          TRANSFER("T", "16") "," DEVICE), "index 2: ishape has 2 arguments"},
    {PLAN(HOST("{\"offset\":\"0\",\"source\":\"moon\"}") "," TRANSFER("T", "16") "," DEVICE),
     "source \"moon\", expected argument, address or sizes"},
    {"{\"JobPreparationPlan\":[{\"command\":\"Allocate\",\"properties\":{\"size\":\"4096\"}},"
     "{\"command\":\"InitTransfer\",\"properties\":{\"init_bin_file\":\"../a\",\"dev_ptr\":"
     "\"120259084288\",\"size\":\"4\"}}],\"JobExecPlan\":[" DEVICE "]}",
     "init_bin_file: \"../a\" is no plain file name"},
    {"{\"JobPreparationPlan\":[{\"command\":\"Allocate\",\"properties\":{\"size\":\"4096\"}},"
     "{\"command\":\"InitTransfer\",\"properties\":{\"init_bin_file\":\"a\",\"dev_ptr\":"
     "\"120259084288\",\"size\":\"5000\"}}],\"JobExecPlan\":[" DEVICE "]}",
     "JobPreparationPlan[1]: dev_ptr 120259084288: 5000 bytes leave"},
};

static void code__refuses_with_place_and_rule(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof refused / sizeof *refused; n++) {
        arena *memory = arena_create();
        spyrecode *code;
        assert_error(spyrecode_parse(memory, "x.json", refused[n].json, strlen(refused[n].json),
                                     &code),
                     SPYRE_INVALID_FORMAT, refused[n].message);
        arena_destroy(memory);
    }
}

static void code__takes_the_keys_of_the_specification(void **state)
{
    (void)state;
    static const char json[] =
        "{\"JobPreparationPlan\":[{\"command\":\"Allocate\",\"properties\":{\"size\":49152}},"
        "{\"command\":\"InitTransfer\",\"properties\":{\"file_path\":\"a.bin\","
        "\"dev_ptr\":120259084416,\"size\":32768}}],\"JobExecPlan\":["
        HOST(PATCH) ",{\"command\":\"DataTransfer\",\"properties\":{\"direction\":\"0\","
        "\"host_handle\":\"T\",\"dev_ptr\":120259084288,\"size\":16}},"
        "{\"command\":\"ComputeOnDevice\",\"properties\":{\"job_bin_ptr\":120259084416}}]}";
    arena *memory = arena_create();
    spyrecode *code;
    assert_ok(spyrecode_parse(memory, "x.json", json, strlen(json), &code));
    assert_int_equal(code->transfers.items[0].byte_count, 32768);
    isa_program *program;
    const spyrecode_argument *found;
    assert_error(spyrecode_program(memory, code, &program, &found), SPYRE_UNSUPPORTED,
                 "init.bin was not read");
    arena_destroy(memory);
}

// What another back-end says to its own host function is kept and never executed.
static void code__of_another_back_end_is_kept(void **state)
{
    (void)state;
    static const char json[] = PLAN(
        FOREIGN("", "{\"vdci\":{\"a\":[1]},\"senConstants\":[]}") "," TRANSFER("T", "16") ","
        "{\"command\":\"ComputeOnDevice\",\"properties\":{\"job_bin_ptr\":\"120259084288\""
        ",\"name\":\"a b\"}}," DEVICE "," TO_HOST("34359738496", "256"));
    arena *memory = arena_create();
    spyrecode *code, *again;
    text first = {0}, second = {0};
    assert_ok(spyrecode_parse(memory, "x.json", json, strlen(json), &code));
    const spyrecode_command *commands = code->commands.items;
    assert_int_equal(code->commands.count, 5);
    assert_int_equal(commands[0].argument_count, 64 * 16);
    assert_string_equal(commands[2].name, "a b");
    assert_null(commands[3].name);
    uint64_t nothing[64 * 16] = {0}, output[2];
    assert_error(spyrecode_correct(&commands[0], nothing, 64 * 16, NULL, (uint8_t *)output),
                 SPYRE_UNSUPPORTED, "of another back-end");
    assert_ok(spyrecode_print(code, 0, &first));
    assert_non_null(strstr(text_string(&first), "\"vdci\":"));
    assert_ok(spyrecode_parse(memory, "x.json", text_string(&first), first.length, &again));
    assert_ok(spyrecode_print(again, 0, &second));
    assert_string_equal(text_string(&first), text_string(&second));
    text_free(&first);
    text_free(&second);
    arena_destroy(memory);
}

static void code__missing_and_short_files_are_named(void **state)
{
    (void)state;
    isa_program *p = copy_program();
    spyrecode *read;
    const char *directory = temporary_directory();
    assert_error(spyrecode_read(p->memory, directory, &read), SPYRE_NOT_FOUND, "spyrecode.json");
    assert_ok(spyrecode_write(build(p), directory));
    const char *path = file_join(p->memory, directory, "init.bin");
    assert_ok(file_write(path, "short", 5));
    assert_error(spyrecode_read(p->memory, directory, &read), SPYRE_INVALID_FORMAT,
                 "init.bin: 5 bytes, spyrecode.json says");
    assert_ok(file_remove(path));
    assert_error(spyrecode_read(p->memory, directory, &read), SPYRE_NOT_FOUND, "init.bin");
    remove_directory(directory);
    free_program(p);
}

// Any change of the text is read or refused, never more.
static void code__mutations_do_not_crash(void **state)
{
    (void)state;
    static const char whole[] = PLAN(HOST(PATCH) "," TRANSFER("T", "16") "," DEVICE);
    uint64_t seed = 17;
    uint32_t accepted = 0;
    for (int round = 0; round < 20000; round++) {
        char json[sizeof whole];
        memcpy(json, whole, sizeof whole);
        size_t length = sizeof whole - 1;
        for (uint32_t n = next_random(&seed) % 3; n < 3; n++) {
            size_t at = next_random(&seed) % length;
            switch (next_random(&seed) % 4) {
            case 0: json[at] = (char)(next_random(&seed) % 256); break;
            case 1: json[at] = "0123456789-\",{}[]:"[next_random(&seed) % 18]; break;
            case 2: memmove(json + at, json + at + 1, --length - at); break;
            default: json[at] = json[next_random(&seed) % length]; break;
            }
        }
        arena *memory = arena_create();
        spyrecode *code;
        spyre_status status = spyrecode_parse(memory, "x", json, length, &code);
        if (!status) {
            accepted++;
            assert_ok(spyrecode_verify(code));
        }
        assert_true(!status || !strchr(spyre_status_message(status), '\n'));
        spyre_status_free(status);
        arena_destroy(memory);
    }
    assert_in_range(accepted, 1, 19999);
}

// A damaged init.bin is refused by its checksum or decodes to a program that verifies.
static void code__damaged_programs_are_refused(void **state)
{
    (void)state;
    isa_program *p = copy_program();
    spyrecode *code = build(p);
    uint64_t seed = 18, bytes = code->commands.items[0].program_bytes;
    uint8_t *damaged = ARENA_NEW(p->memory, uint8_t, code->transfers.items[0].byte_count);
    code->transfers.items[0].bytes = damaged;
    isa_program *intact = copy_program();
    spyrecode *whole = build(intact);
    for (int round = 0; round < 3000; round++) {
        memcpy(damaged, whole->transfers.items[0].bytes, code->transfers.items[0].byte_count);
        damaged[next_random(&seed) % bytes] ^= (uint8_t)(1 + next_random(&seed) % 255);
        arena *memory = arena_create();
        isa_program *program;
        const spyrecode_argument *found;
        spyre_status status = spyrecode_program(memory, code, &program, &found);
        if (!status) assert_ok(isa_verify(program));
        spyre_status_free(status);
        arena_destroy(memory);
    }
    free_program(intact);
    free_program(p);
}

// --- init.txt

static void code__init_text_survives(void **state)
{
    (void)state;
    isa_program *p = copy_program();
    spyrecode *code = build(p), *again;
    text first = {0}, second = {0};
    assert_ok(spyrecode_print_text(code, &first));
    const char *line = strchr(text_string(&first), '\n') + 1;
    assert_int_equal(strcspn(line, "\n"), 256);
    // Byte 0 is the last pair of digits, and the image begins with "SPYRECOD".
    assert_memory_equal(line + 256 - 16, "444f434552595053", 16);
    assert_ok(spyrecode_parse_text(p->memory, "init.txt", text_string(&first), first.length,
                                   &again));
    assert_memory_equal(again->transfers.items[0].bytes, code->transfers.items[0].bytes,
                        (size_t)code->transfers.items[0].byte_count);
    assert_ok(spyrecode_print_text(again, &second));
    assert_string_equal(text_string(&first), text_string(&second));
    text_free(&first);
    text_free(&second);
    free_program(p);
}

static void code__init_text_is_refused_by_line(void **state)
{
    (void)state;
    isa_program *p = copy_program();
    spyrecode *code = build(p), *again;
    text out = {0};
    assert_ok(spyrecode_print_text(code, &out));
    char *plan = arena_strdup(p->memory, text_string(&out)), *lines = strchr(plan, '\n') + 1;
    char zeros[257];
    memset(zeros, '0', 256);
    zeros[256] = 0;
    lines[-1] = 0;
    const struct {
        const char *source;
        spyre_code code;
        const char *message;
    } cases[] = {
        {"", SPYRE_INVALID_FORMAT, "t: no line of bytes"},
        {"# nothing\n", SPYRE_INVALID_FORMAT, "t: no line of bytes"},
        {arena_printf(p->memory, "# a\n\n%s0\n", zeros), SPYRE_INVALID_FORMAT,
         "t:3: 257 characters, a line of bytes has 256"},
        {arena_printf(p->memory, "%.254sx1", zeros), SPYRE_INVALID_FORMAT,
         "t:1:255: 'x1' is no hexadecimal number"},
        {zeros, SPYRE_UNSUPPORTED,
         "t: code of another back-end: no line begins with '# spyrecode '"},
        {arena_printf(p->memory, "%s\n%s\n", plan, plan), SPYRE_INVALID_FORMAT,
         "t:2: a second plan"},
        {arena_printf(p->memory, "%s\n%s\n", plan, zeros), SPYRE_INVALID_FORMAT,
         "t: 128 bytes, its plan says"},
        {"# spyrecode {", SPYRE_INVALID_FORMAT, "t:1"},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        spyre_status status = spyrecode_parse_text(p->memory, "t", cases[n].source,
                                                   strlen(cases[n].source), &again);
        assert_int_equal(spyre_status_code(status), cases[n].code);
        assert_memory_equal(spyre_status_message(status), cases[n].message,
                            strlen(cases[n].message));
        spyre_status_free(status);
    }
    text_free(&out);
    free_program(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code__survives_a_round_trip),
        cmocka_unit_test(code__same_code_same_bytes),
        cmocka_unit_test(code__correction_gives_the_argument_table),
        cmocka_unit_test(code__refuses_with_place_and_rule),
        cmocka_unit_test(code__takes_the_keys_of_the_specification),
        cmocka_unit_test(code__of_another_back_end_is_kept),
        cmocka_unit_test(code__missing_and_short_files_are_named),
        cmocka_unit_test(code__mutations_do_not_crash),
        cmocka_unit_test(code__damaged_programs_are_refused),
        cmocka_unit_test(code__init_text_survives),
        cmocka_unit_test(code__init_text_is_refused_by_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
