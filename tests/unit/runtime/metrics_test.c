// SPDX-License-Identifier: Apache-2.0
//
// Metrics files: what is counted, where they are, what is refused.
#include "device_case.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spyre/metrics.h"

#define CONFIG "SENLIB_DEVEL_CONFIG_FILE"

static char folder[] = "/tmp/spyre_metrics_XXXXXX", config[64], path[64];

static void write_config(const char *contents)
{
    FILE *file = fopen(config, "w");
    assert_non_null(file);
    fputs(contents, file);
    fclose(file);
}

static int make_folder(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(config, sizeof config, "%s/c.json", folder);
    snprintf(path, sizeof path, "%s/m.0000:01:00.0", folder);
    setenv(CONFIG, config, 1);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    unlink(config);
    rmdir(folder);
    return 0;
}

static void use_folder(void)
{
    char contents[128];
    snprintf(contents, sizeof contents,
             "{\"other\": 1, \"metrics\": {\"path\": \"%s/m.%%BUSID\"}}", folder);
    write_config(contents);
}

static void use_card(uint32_t card_id)
{
    spyre_memory_free(the_context, card_id, allocate(card_id, 128));
}

// With the file of card 0 at `path`.
static void open_cards(void **state)
{
    use_folder();
    open_context(state);
    use_card(0);
}

static void assert_fails(spyre_code code, const char *file, const char *words)
{
    spyre_metrics m;
    spyre_status status = spyre_metrics_read(file, &m);
    assert_int_equal(spyre_status_code(status), code);
    assert_non_null(strstr(spyre_status_message(status), file));
    assert_non_null(strstr(spyre_status_message(status), words));
    spyre_status_free(status);
}

static void metrics__exchanges_are_counted(void **state)
{
    open_cards(state);
    const spyre_exchange_info reduce = {SPYRE_COMM_ALL_REDUCE, 4, false, 1000, -1};
    const spyre_exchange_info send = {SPYRE_COMM_SEND, 2, true, 64, -1};
    spyre_metrics m;
    assert_ok(spyre_exchange(the_context, 0, 0, &reduce));
    assert_ok(spyre_exchange(the_context, 0, 0, &send));
    assert_ok(spyre_stream_synchronize(the_context, 0, 0));
    assert_ok(spyre_metrics_read(path, &m));
    assert_int_equal(m.rdma_sent_bytes, 1500 + 64);
    assert_int_equal(m.rdma_received_bytes, 1500);
    assert_int_equal(m.rdma_sendings, 2);
    assert_int_equal(m.rdma_receipts, 1);
    assert_int_equal(m.received_bytes + m.sent_bytes, 0);       // of the host
    close_context(state);
}

static void metrics__launches_and_transfers_are_counted(void **state)
{
    use_folder();
    open_context(state);
    adder *a = make_adder(3, 0);
    spyre_metrics m;
    float values[COUNT] = {0};
    uint64_t x = allocate(0, COUNT * 4);
    put(0, 0, x, values);
    assert_ok(launch(a, 0, 0, x, x));
    assert_ok(launch(a, 0, 0, x, x));
    assert_ok(get(0, 0, x, values));
    assert_ok(spyre_metrics_read(path, &m));
    const card_counters *work = job_counters(a->j, NULL);
    assert_int_equal(m.process, getpid());
    assert_int_equal(m.card, 0);
    assert_true(m.opened_ns > 0);
    assert_string_equal(m.bus_id, "0000:01:00.0");
    assert_int_equal(m.launches, 2);
    assert_int_equal(m.receipts, 1);
    assert_int_equal(m.sendings, 1);
    assert_int_equal(m.received_bytes, COUNT * 4);
    assert_int_equal(m.sent_bytes, COUNT * 4);
    assert_int_equal(m.memory_read_bytes, 2 * work->memory_read_bytes + COUNT * 4);
    assert_int_equal(m.memory_written_bytes, 2 * work->memory_written_bytes + COUNT * 4);
    assert_true(m.compute_us == 2 * work->us);
    assert_true(m.pt_busy_us == 2 * work->busy_us[CARD_PT]);
    assert_true(m.clock_us > m.compute_us && m.busy_ns > 0);
    assert_int_equal(m.launch_begin_ns, 0);
    assert_int_equal(m.allocated_bytes, COUNT * 4);
    assert_int_equal(m.segment_bytes[0], COUNT * 4);
    assert_int_equal(m.peak_bytes, COUNT * 4);
    assert_true(m.reserved_bytes >= COUNT * 4);
    spyre_memory_free(the_context, 0, x);
    assert_ok(spyre_metrics_read(path, &m));
    assert_int_equal(m.allocated_bytes, 0);
    assert_int_equal(m.segment_bytes[0], 0);
    assert_int_equal(m.peak_bytes, COUNT * 4);
    free_adder(a);
    close_context(state);
    assert_ok(spyre_metrics_read(path, &m));    // stays for the last sample
    char second[64];
    snprintf(second, sizeof second, "%s/m.0000:02:00.0", folder);
    assert_fails(SPYRE_NOT_FOUND, second, "cannot open");       // that card was not used
}

static void metrics__what_the_cache_gives_back_is_not_reserved(void **state)
{
    enum { BYTES = 8 << 20 };
    spyre_metrics m;
    open_cards(state);
    uint64_t x = allocate(0, BYTES);
    spyre_memory_free(the_context, 0, x);
    assert_ok(spyre_metrics_read(path, &m));
    assert_true(m.reserved_bytes >= BYTES);
    assert_int_equal(m.peak_bytes, BYTES);
    spyre_memory_empty_cache(the_context, 0);
    spyre_memory_reset_peak(the_context, 0);
    assert_ok(spyre_metrics_read(path, &m));
    assert_true(m.reserved_bytes < BYTES / 2);
    assert_int_equal(m.peak_bytes, 0);
    close_context(state);
}

static void *launch_often(void *argument)
{
    adder *a = argument;
    uint64_t x = allocate(0, COUNT * 4);
    for (int n = 0; n < 200; n++) assert_ok(launch(a, 0, 0, x, x));
    spyre_memory_free(the_context, 0, x);
    return NULL;
}

static void metrics__a_reader_sees_whole_updates(void **state)
{
    open_cards(state);
    adder *a = make_adder(3, 0);
    const card_counters *work = job_counters(a->j, NULL);
    spyre_metrics m = {0};
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, launch_often, a), 0);
    while (m.launches < 200) {
        assert_ok(spyre_metrics_read(path, &m));
        assert_int_equal(m.memory_read_bytes, m.launches * work->memory_read_bytes);
        assert_int_equal(m.memory_written_bytes, m.launches * work->memory_written_bytes);
        assert_int_equal(m.allocated_bytes, m.segment_bytes[0]);
    }
    pthread_join(writer, NULL);
    free_adder(a);
    close_context(state);
}

static void metrics__a_file_cut_short_is_whole_again_with_the_next_update(void **state)
{
    spyre_metrics m;
    open_cards(state);
    assert_int_equal(truncate(path, 100), 0);
    assert_fails(SPYRE_INVALID_FORMAT, path, "no metrics file of this version");
    uint64_t x = allocate(0, 4096);
    assert_ok(spyre_metrics_read(path, &m));
    assert_int_equal(m.allocated_bytes, 4096);
    spyre_memory_free(the_context, 0, x);
    close_context(state);
}

static void metrics__damage_is_refused(void **state)
{
    open_cards(state);
    close_context(state);
    char bytes[1024];
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    long length = (long)fread(bytes, 1, sizeof bytes, file);
    assert_true(length > 200 && length < (long)sizeof bytes);
    for (long at = 0; at < length; at += 5) {
        for (int undone = 0; undone < 2; undone++) {
            bytes[at] = (char)(bytes[at] ^ 0x20);
            rewind(file);
            assert_int_equal(fwrite(bytes, 1, (size_t)length, file), length);
            assert_int_equal(fflush(file), 0);
            if (!undone) assert_fails(SPYRE_INVALID_FORMAT, path, "");
        }
    }
    fclose(file);
    spyre_metrics m;
    assert_ok(spyre_metrics_read(path, &m));
}

// Nothing is written through a link that waits where the file will be.
static void metrics__a_link_is_replaced(void **state)
{
    struct stat about;
    use_folder();
    unlink(path);
    assert_int_equal(stat(config, &about), 0);
    off_t before = about.st_size;
    assert_int_equal(symlink(config, path), 0);
    open_context(state);
    use_card(0);
    assert_int_equal(lstat(path, &about), 0);
    assert_true(S_ISREG(about.st_mode));
    close_context(state);
    assert_int_equal(stat(config, &about), 0);
    assert_int_equal(about.st_size, before);
}

static void metrics__cards_have_the_bus_ids_of_the_container(void **state)
{
    (void)state;
    spyre_metrics m;
    char first[64], second[64];
    use_folder();
    setenv("PCIDEVICE_IBM_COM_AIU_PF", "0000:1a:00.0,0000:1b:00.0", 1);
    setenv("AIU_WORLD_RANK_0", "0000:2c:00.0", 1);
    open_context(state);
    use_card(0);
    use_card(1);
    close_context(state);
    unsetenv("PCIDEVICE_IBM_COM_AIU_PF");
    unsetenv("AIU_WORLD_RANK_0");
    snprintf(first, sizeof first, "%s/m.0000:2c:00.0", folder);
    snprintf(second, sizeof second, "%s/m.0000:1b:00.0", folder);
    assert_ok(spyre_metrics_read(first, &m));
    assert_int_equal(m.card, 0);
    assert_ok(spyre_metrics_read(second, &m));
    assert_int_equal(m.card, 1);
    unlink(first);
    unlink(second);
}

static void assert_refused(const char *words)
{
    spyre_context *context;
    spyre_status status = spyre_context_create(2, &context);
    assert_non_null(status);
    assert_non_null(strstr(spyre_status_message(status), words));
    spyre_status_free(status);
}

static void metrics__bad_configurations_are_refused(void **state)
{
    (void)state;
    unlink(config);
    assert_refused(CONFIG ": ");
    write_config("{\"metrics\": ");
    assert_refused("line 1");
    write_config("[]");
    assert_refused("expected an object");
    write_config("{\"metrics\": 3}");
    assert_refused("$.metrics");
    write_config("{\"metrics\": {\"path\": 3}}");
    assert_refused("$.metrics.path");
    write_config("{\"metrics\": {\"path\": \"/tmp/metrics\"}}");
    assert_refused("has no %BUSID");
    use_folder();
    setenv("AIU_WORLD_RANK_0", "../../etc", 1);
    assert_refused("AIU_WORLD_RANK_0=../../etc: expected a bus id");
    unsetenv("AIU_WORLD_RANK_0");
    setenv("AIU_WORLD_RANK_1", "0000:01:00.0", 1);
    assert_refused("card 1: bus id 0000:01:00.0 is that of card 0, too");
    unsetenv("AIU_WORLD_RANK_1");
}

// What the process writes to stderr during two allocations, in out[0..capacity).
static void allocate_twice(char *out, size_t capacity)
{
    FILE *said = tmpfile();
    int before = dup(STDERR_FILENO);
    assert_non_null(said);
    dup2(fileno(said), STDERR_FILENO);
    use_card(0);
    use_card(0);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(said);
    out[fread(out, 1, capacity - 1, said)] = '\0';
    fclose(said);
}

static void assert_works_without(const char *file)
{
    char said[1024], wanted[256];
    snprintf(wanted, sizeof wanted, "spyre warning: " CONFIG ": %s: cannot", file);
    allocate_twice(said, sizeof said);
    assert_true(strncmp(said, wanted, strlen(wanted)) == 0);
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);      // one line
}

static void metrics__a_card_works_without_a_file_that_cannot_be_made(void **state)
{
    write_config("{\"metrics\": {\"path\": \"/nowhere/%BUSID\"}}");
    open_context(state);
    assert_works_without("/nowhere/0000:01:00.0");
    adder *a = make_adder(3, 0);
    uint64_t x = allocate(0, COUNT * 4);
    assert_ok(launch(a, 0, 0, x, x));
    spyre_memory_free(the_context, 0, x);
    free_adder(a);
    close_context(state);
}

// A folder stands for what this user may not remove: another user's file.
static void metrics__a_name_that_is_taken_is_left_alone(void **state)
{
    use_folder();
    unlink(path);
    assert_int_equal(mkdir(path, 0755), 0);
    open_context(state);
    assert_works_without(path);
    close_context(state);
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    assert_true(S_ISDIR(found.st_mode));
    rmdir(path);
}

static void metrics__other_files_are_refused(void **state)
{
    (void)state;
    assert_fails(SPYRE_NOT_FOUND, "/nowhere", "cannot open");
    write_config("{}");
    assert_fails(SPYRE_INVALID_FORMAT, config, "no metrics file of this version");
    assert_fails(SPYRE_IO, folder, "cannot read");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics__launches_and_transfers_are_counted),
        cmocka_unit_test(metrics__exchanges_are_counted),
        cmocka_unit_test(metrics__what_the_cache_gives_back_is_not_reserved),
        cmocka_unit_test(metrics__a_reader_sees_whole_updates),
        cmocka_unit_test(metrics__a_file_cut_short_is_whole_again_with_the_next_update),
        cmocka_unit_test(metrics__damage_is_refused),
        cmocka_unit_test(metrics__a_link_is_replaced),
        cmocka_unit_test(metrics__cards_have_the_bus_ids_of_the_container),
        cmocka_unit_test(metrics__bad_configurations_are_refused),
        cmocka_unit_test(metrics__a_card_works_without_a_file_that_cannot_be_made),
        cmocka_unit_test(metrics__a_name_that_is_taken_is_left_alone),
        cmocka_unit_test(metrics__other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
