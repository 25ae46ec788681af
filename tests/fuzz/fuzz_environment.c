// SPDX-License-Identifier: Apache-2.0
//
// Lines NAME=VALUE become the environment in which settings are read and a card is opened. Host
// threads stay few: how many there are is not the question here.
#include "fuzz/fuzz.h"
#include "spyre/runtime.h"

static const char *const of_the_runtime[] = {
    "SPYRE_MEMORY_LIMIT_GB", "SPYRE_THREADS", "SPYRE_WIPE_LX", "SPYRE_CARD_MODE",
    "SPYRE_CARD_CHECK", "SPYRE_SIMD", "SPYRE_LOG",
};

enum { OF_THE_RUNTIME = sizeof of_the_runtime / sizeof *of_the_runtime };

// Variable n, "" when it is a setting without one; null behind the last.
static const char *variable(uint32_t n)
{
    if (n < OF_THE_RUNTIME) return of_the_runtime[n];
    const spyre_setting *setting = spyre_setting_at(n - OF_THE_RUNTIME);
    return n - OF_THE_RUNTIME < spyre_setting_count() ? setting->variable : NULL;
}

static void set(char *line)
{
    char *value = strchr(line, '=');
    if (!value) return;
    *value++ = '\0';
    bool many_threads = strcmp(line, "SPYRE_THREADS") == 0 && strspn(value, "0123456789") > 1;
    for (uint32_t n = 0; !many_threads && variable(n); n++)
        if (*line && strcmp(variable(n), line) == 0) setenv(line, value, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    char *rest = fuzz_string(memory, bytes, count), *line;
    for (uint32_t n = 0; variable(n); n++)
        if (*variable(n)) unsetenv(variable(n));
    setenv("SPYRE_LOG", "off", 1);
    while ((line = strsep(&rest, "\n"))) set(line);
    spyre_settings settings;
    fuzz_ok(spyre_settings_from_environment(&settings));
    spyre_context *context;
    if (fuzz_ok(spyre_context_create(1, &context))) spyre_context_destroy(context);
    arena_destroy(memory);
    return 0;
}
