// SPDX-License-Identifier: Apache-2.0
//
// Recorded launches: what a card held before and behind one, through a file.
#include "unit/check.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "runtime/launch_record_file.h"

enum { BYTES = 3 * LAUNCH_RECORD_CHUNK_BYTES - 128 };
static const uint64_t bases[] = {0, ISA_SEGMENT_BYTES + 4096};

static card *new_card(void)
{
    card *c = NULL;
    assert_ok(card_create(&c));
    return c;
}

// A launch that wrote one byte of the second window, next to what was there.
static launch_record record_of(arena *memory, card *c)
{
    static const uint8_t image[] = {1, 2, 3};
    launch_record record = {.memory = memory, .name = "sum", .image = image,
                            .image_bytes = sizeof image, .forgets_lx = true};
    for (int w = 0; w < 2; w++)
        assert_ok(VEC_PUSH(memory, &record.windows,
                           ((launch_window){.base = bases[w], .bytes = BYTES, .kept = w == 1})));
    memset(card_memory(c, bases[0], BYTES), 7, 10);
    memset((char *)card_memory(c, bases[1], BYTES) + 5000, 8, 10);
    card_lx(c, 31)[ISA_LX_BYTES - 1] = 9;
    assert_ok(launch_record_take(&record, c));
    ((char *)card_memory(c, bases[1], BYTES))[BYTES - 1] = 1;
    assert_ok(launch_record_finish(&record, c, false));
    return record;
}

static void through_a_file(arena *memory, const launch_record *record, launch_record *out)
{
    char path[] = "/tmp/spyre_launch_XXXXXX", *bytes;
    size_t count;
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_ok(launch_record_file_write(record, path));
    assert_ok(file_read(memory, path, 1 << 20, &bytes, &count));
    unlink(path);
    assert_ok(launch_record_file_parse(memory, (const uint8_t *)bytes, count, out));
}

static int64_t difference(const launch_record *record, uint32_t window, card *c)
{
    int64_t first;
    assert_ok(launch_record_compare(record, window, c, &first));
    return first;
}

static void launch_record__another_card_finds_and_leaves_the_same(void **state)
{
    (void)state;
    arena *memory = arena_create();
    card *first = new_card(), *second = new_card();
    launch_record written = record_of(memory, first), record;
    through_a_file(memory, &written, &record);
    assert_string_equal(record.name, "sum");
    assert_int_equal(record.image_bytes, 3);
    assert_true(record.forgets_lx && !record.faulted);
    assert_true(!record.windows.items[0].kept && record.windows.items[1].kept);
    assert_ok(launch_record_restore(&record, second));
    assert_int_equal(card_lx(second, 31)[ISA_LX_BYTES - 1], 9);
    assert_int_equal(difference(&record, 0, second), -1);
    assert_int_equal(difference(&record, 1, second), BYTES - 1);
    uint8_t *window = card_memory(second, bases[1], BYTES);
    window[BYTES - 1] = 1;
    assert_int_equal(difference(&record, 1, second), -1);
    window[5003] = 0;
    assert_int_equal(difference(&record, 1, second), 5003);
    window[17] = 1;
    assert_int_equal(difference(&record, 1, second), 17);
    card_destroy(first);
    card_destroy(second);
    arena_destroy(memory);
}

// Every piece of a body, sealed, is an error: nothing behind the end is read.
static void launch_record__pieces_are_refused(void **state)
{
    (void)state;
    arena *memory = arena_create();
    card *c = new_card();
    launch_record record = record_of(memory, c), again;
    char path[] = "/tmp/spyre_launch_XXXXXX", *bytes;
    size_t count;
    close(mkstemp(path));
    assert_ok(launch_record_file_write(&record, path));
    assert_ok(file_read(memory, path, 1 << 20, &bytes, &count));
    unlink(path);
    for (size_t length = 0; length < count - 24; length += length < 200 ? 1 : 97) {
        text file = {0};
        launch_record_file_seal(&file, bytes + 24, length);
        spyre_status status =
            launch_record_file_parse(memory, (const uint8_t *)file.bytes, file.length, &again);
        assert_int_equal(spyre_status_code(status), SPYRE_INVALID_FORMAT);
        spyre_status_free(status);
        text_free(&file);
    }
    bytes[count - 1] ^= 1;
    assert_error(launch_record_file_parse(memory, (const uint8_t *)bytes, count, &again),
                 SPYRE_INVALID_FORMAT, "the checksum is wrong");
    bytes[8] = 2;
    assert_error(launch_record_file_parse(memory, (const uint8_t *)bytes, count, &again),
                 SPYRE_INVALID_FORMAT, "the version is 2");
    assert_error(launch_record_file_parse(memory, (const uint8_t *)"GIF89a..", 8, &again),
                 SPYRE_INVALID_FORMAT, "does not begin with SPYRLNCH");
    card_destroy(c);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launch_record__another_card_finds_and_leaves_the_same),
        cmocka_unit_test(launch_record__pieces_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
