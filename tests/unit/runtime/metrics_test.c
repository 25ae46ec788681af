// SPDX-License-Identifier: Apache-2.0
//
// Metrics files: what is counted, where they are, what is refused.
#include "device_case.h"

#include <stdio.h>
#include <string.h>
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
    snprintf(contents, sizeof contents, "{\"other\": 1, \"metrics\": {\"path\": \"%s/m.%%BUSID\"}}", folder);
    write_config(contents);
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
    assert_ok(spyre_metrics_read(second, &m));
    assert_int_equal(m.card, 1);
    unlink(second);
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
    spyre_status status = spyre_context_create(1, &context);
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
    write_config("{\"metrics\": {\"path\": \"/nowhere/%BUSID\"}}");
    assert_refused("/nowhere/0000:01:00.0");
    use_folder();
    setenv("AIU_WORLD_RANK_0", "../../etc", 1);
    assert_refused("AIU_WORLD_RANK_0=../../etc: expected a bus id");
    unsetenv("AIU_WORLD_RANK_0");
}

static void metrics__other_files_are_refused(void **state)
{
    (void)state;
    spyre_metrics m;
    spyre_status status = spyre_metrics_read("/nowhere", &m);
    assert_int_equal(spyre_status_code(status), SPYRE_NOT_FOUND);
    spyre_status_free(status);
    write_config("{}");
    status = spyre_metrics_read(config, &m);
    assert_int_equal(spyre_status_code(status), SPYRE_INVALID_FORMAT);
    spyre_status_free(status);
    assert_int_equal(spyre_status_code(status = spyre_metrics_read(folder, &m)), SPYRE_IO);
    spyre_status_free(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics__launches_and_transfers_are_counted),
        cmocka_unit_test(metrics__cards_have_the_bus_ids_of_the_container),
        cmocka_unit_test(metrics__bad_configurations_are_refused),
        cmocka_unit_test(metrics__other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
