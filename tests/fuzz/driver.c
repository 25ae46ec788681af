// SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target without libFuzzer.
//
//     TARGET FILE|DIRECTORY..                   replays them, and a few mutations of each
//     TARGET -seconds=N -keep=DIR FILE|DIR..    looks for new inputs for N seconds
//
// An input is kept, and written to DIR, when it reaches code that none before it has reached; that
// needs a library built with -fsanitize-coverage=trace-pc (cmake -DSPYRE_FUZZ=ON). The generator is
// seeded by -seed=N, so a run without a clock can be repeated; two changes of three are those of
// mutate.h, which know tokens, the others are of bytes. The input at work is in the file
// <target>.input beside the process until it ends well, so a crash leaves it there.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "fuzz/mutate.h"

enum { MOST_BYTES = 1 << 16, MOST_INPUTS = 1 << 16, REPLAY_MUTATIONS = 20, HANG_SECONDS = 60 };

typedef struct {
    uint8_t *bytes;
    size_t count;
} sample;

static struct {
    sample samples[MOST_INPUTS];
    uint32_t count;
    uint64_t random;
    int at_work;                        // file
    char at_work_path[256];
    const char *keep;
    uint64_t executions;
} fuzz = {.random = 1};

// --- Coverage: one byte a place in the code

static uint8_t reached[1 << 20];
static uint32_t reached_count;

// Also called while the program is relocated, before the sanitizer is ready.
void __sanitizer_cov_trace_pc(void);
__attribute__((no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc(void)
{
    uintptr_t place = (uintptr_t)__builtin_return_address(0);
    uint8_t *cell = &reached[(place ^ place >> 20) & (sizeof reached - 1)];
    reached_count += !*cell;
    *cell = 1;
}

// --- Inputs

static uint32_t below(uint32_t limit)
{
    return mutate_below(&fuzz.random, limit);
}

static void add_sample(const uint8_t *bytes, size_t count)
{
    if (fuzz.count == MOST_INPUTS) return;
    uint8_t *copy = malloc(count + 1);
    if (!copy) abort();
    if (count) memcpy(copy, bytes, count);
    fuzz.samples[fuzz.count++] = (sample){copy, count};
}

static int compare(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void read_file(const char *path)
{
    static uint8_t bytes[MOST_BYTES];
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(2);
    }
    size_t count = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    add_sample(bytes, count);
}

static void read_path(const char *path)
{
    struct stat about;
    struct dirent **names;
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode)) {
        read_file(path);
        return;
    }
    int count = scandir(path, &names, NULL, compare);
    for (int i = 0; i < count; i++) {
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.') read_path(inner);
        free(names[i]);
    }
    free(names);
}

// --- Mutation

static size_t insert(uint8_t *bytes, size_t count, size_t at, const uint8_t *piece, size_t length)
{
    if (count + length > MOST_BYTES) return count;
    memmove(bytes + at + length, bytes + at, count - at);
    memcpy(bytes + at, piece, length);
    return count + length;
}

static size_t cut(uint8_t *bytes, size_t count, size_t at, size_t length)
{
    memmove(bytes + at, bytes + at + length, count - at - length);
    return count - length;
}

// Puts another number where one stands in the text at or behind `at`.
static size_t change_number(uint8_t *bytes, size_t count, size_t at)
{
    static const char *const numbers[] = {
        "0", "1", "-1", "2", "3", "7", "8", "31", "32", "33", "63", "64", "65", "127", "128",
        "255", "256", "4095", "65535", "65536", "2097152", "2147483647", "2147483648",
        "-2147483648", "4294967295", "4294967296", "17179869184", "9223372036854775807",
        "-9223372036854775808", "9223372036854775808", "1e400", "0.5", "nan", "inf",
    };
    while (at < count && (bytes[at] < '0' || bytes[at] > '9')) at++;
    size_t end = at;
    while (end < count && bytes[end] >= '0' && bytes[end] <= '9') end++;
    count = cut(bytes, count, at, end - at);
    const char *number = numbers[below(sizeof numbers / sizeof *numbers)];
    return insert(bytes, count, at, (const uint8_t *)number, strlen(number));
}

static size_t change_word(uint8_t *bytes, size_t count, size_t at)
{
    static const int64_t values[] = {0, 1, -1, 127, 128, 255, 256, 32767, 65535, 65536, INT32_MAX,
                                     INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN, 1LL << 34};
    static const size_t widths[] = {1, 2, 4, 8};
    size_t width = widths[below(4)];
    if (count < width) return count;
    if (at > count - width) at = count - width;
    memcpy(bytes + at, &values[below(sizeof values / sizeof *values)], width);
    return count;
}

static size_t mutate_once(uint8_t *bytes, size_t count)
{
    size_t at = below((uint32_t)count + 1), length = 1 + below(below(2) ? 4 : 64);
    const sample *other = &fuzz.samples[below(fuzz.count)];
    uint8_t byte = (uint8_t)below(256);
    switch (below(8)) {
    case 0:
        if (at < count) bytes[at] ^= (uint8_t)(1u << below(8));
        return count;
    case 1: return insert(bytes, count, at, &byte, 1);
    case 2: return cut(bytes, count, at, length < count - at ? length : count - at);
    case 3: return change_word(bytes, count, at);
    case 4:
    case 5: return change_number(bytes, count, at);
    case 6: {                           // a piece of another input
        if (!other->count) return count;
        size_t from = below((uint32_t)other->count);
        if (length > other->count - from) length = other->count - from;
        return insert(bytes, count, at, other->bytes + from, length);
    }
    default: {                          // a piece of its own, again
        uint8_t piece[64];
        if (at == count) return count;
        if (length > count - at) length = count - at;
        memcpy(piece, bytes + at, length);
        return insert(bytes, count, below((uint32_t)count + 1), piece, length);
    }
    }
}

// --- Running

static void open_at_work(const char *program)
{
    const char *name = strrchr(program, '/');
    snprintf(fuzz.at_work_path, sizeof fuzz.at_work_path, "%s.input", name ? name + 1 : program);
    fuzz.at_work = open(fuzz.at_work_path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (fuzz.at_work < 0) exit(2);
}

static void execute(const uint8_t *bytes, size_t count)
{
    // The library gets bytes of its own, so that the sanitizer sees the end of them.
    uint8_t *copy = malloc(count ? count : 1);
    if (!copy) abort();
    if (count) memcpy(copy, bytes, count);
    if (ftruncate(fuzz.at_work, 0) != 0 || pwrite(fuzz.at_work, bytes, count, 0) < 0) exit(2);
    alarm(HANG_SECONDS);
    LLVMFuzzerTestOneInput(copy, count);
    alarm(0);
    free(copy);
    fuzz.executions++;
}

static void keep(const uint8_t *bytes, size_t count)
{
    char path[4096];
    add_sample(bytes, count);
    if (!fuzz.keep) return;
    snprintf(path, sizeof path, "%s/%06u", fuzz.keep, fuzz.count);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count) exit(2);
    fclose(file);
}

static void execute_mutation(const sample *from)
{
    static uint8_t bytes[MOST_BYTES];
    size_t count = from->count;
    if (count) memcpy(bytes, from->bytes, count);
    const sample *other = &fuzz.samples[below(fuzz.count)];
    if (below(3))
        count = mutate_structure(bytes, count, sizeof bytes, other->bytes, other->count,
                                 &fuzz.random);
    else
        for (uint32_t n = 1 + below(4); n > 0; n--) count = mutate_once(bytes, count);
    uint32_t before = reached_count;
    execute(bytes, count);
    if (reached_count > before) keep(bytes, count);
}

static void search(long seconds)
{
    time_t end = time(NULL) + seconds;
    while (time(NULL) < end) {
        // New inputs are the promising ones.
        uint32_t recent = fuzz.count > 16 && below(2) ? fuzz.count - 16 : 0;
        execute_mutation(&fuzz.samples[recent + below(fuzz.count - recent)]);
    }
}

int main(int count, char **arguments)
{
    long seconds = 0;
    for (int i = 1; i < count; i++) {
        if (strncmp(arguments[i], "-seconds=", 9) == 0) seconds = atol(arguments[i] + 9);
        else if (strncmp(arguments[i], "-keep=", 6) == 0) fuzz.keep = arguments[i] + 6;
        else if (strncmp(arguments[i], "-seed=", 6) == 0)
            fuzz.random = strtoull(arguments[i] + 6, NULL, 10) * 2 + 1;
        else read_path(arguments[i]);
    }
    open_at_work(arguments[0]);
    add_sample(NULL, 0);
    uint32_t seeds = fuzz.count;
    for (uint32_t i = 0; i < seeds; i++) execute(fuzz.samples[i].bytes, fuzz.samples[i].count);
    for (uint32_t i = 0; i < seeds && !seconds; i++)
        for (uint32_t n = 0; n < REPLAY_MUTATIONS; n++) execute_mutation(&fuzz.samples[i]);
    search(seconds);
    printf("%u inputs, %llu executions, %u places reached\n", seeds,
           (unsigned long long)fuzz.executions, reached_count);
    unlink(fuzz.at_work_path);
    for (uint32_t i = 0; i < fuzz.count; i++) free(fuzz.samples[i].bytes);
    return 0;
}
