// SPDX-License-Identifier: Apache-2.0
//
// Recorded launches: the input is what is behind the header, so that the checksum is right. What
// parses is put on a card and compared, and written and read back it is the same.
#include "base/file.h"
#include "card/card.h"
#include "fuzz/files.h"
#include "runtime/launch_record_file.h"

static void restore(const launch_record *record)
{
    static card *machine;
    uint64_t bytes = 0;
    int64_t first;
    if (!machine) fuzz_must(card_create(&machine));
    for (uint32_t w = 0; w < record->windows.count; w++) bytes += record->windows.items[w].bytes;
    if (bytes > 1 << 20 || !fuzz_ok(launch_record_restore(record, machine))) return;
    for (uint32_t w = 0; w < record->windows.count; w++) {
        fuzz_must(launch_record_compare(record, w, machine, &first));
        card_memory_discard(machine, record->windows.items[w].base, record->windows.items[w].bytes);
    }
    card_wipe_lx(machine);
}

static void round_trip(arena *memory, const launch_record *record, const text *file)
{
    char *again;
    size_t count;
    const char *path = file_join(memory, fuzz_directory(), "launch");
    fuzz_must(launch_record_file_write(record, path));
    fuzz_must(file_read(memory, path, file->length + 1, &again, &count));
    FUZZ_HOLDS(count == file->length && memcmp(again, file->bytes, count) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    text file = {0};
    launch_record record;
    launch_record_file_seal(&file, bytes, count);
    fuzz_must(text_status(&file));
    const uint8_t *whole = (const uint8_t *)file.bytes;
    if (fuzz_ok(launch_record_file_parse(memory, whole, file.length, &record))) {
        restore(&record);
        round_trip(memory, &record, &file);
    }
    // Any bytes, header and all.
    fuzz_ok(launch_record_file_parse(memory, bytes, count, &record));
    text_free(&file);
    arena_destroy(memory);
    return 0;
}
