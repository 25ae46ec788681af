// SPDX-License-Identifier: Apache-2.0
#include "base/environment.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "base/variable.h"
#include "spyre/settings.h"

static const char prefix[] = "SPYRE_";
enum { PREFIX_LENGTH = sizeof prefix - 1, LONGEST_NAME = 64 };

static const char *const names[] = {
#define VARIABLE(name, summary) #name,
#include "base/environment.def"
};

enum { NAME_COUNT = sizeof names / sizeof *names };

extern char **environ;

static uint32_t known_count(void)
{
    return NAME_COUNT + spyre_setting_count();
}

static const char *known_at(uint32_t index)
{
    return index < NAME_COUNT ? names[index] : spyre_setting_at(index - NAME_COUNT)->variable;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// Levenshtein's distance, one row of his table at a time.
static uint32_t distance(const char *a, const char *b)
{
    uint32_t row[LONGEST_NAME + 1], length = (uint32_t)strlen(b);
    for (uint32_t j = 0; j <= length; j++) row[j] = j;
    for (uint32_t i = 0; a[i]; i++) {
        uint32_t diagonal = row[0];
        row[0] = i + 1;
        for (uint32_t j = 0; j < length; j++) {
            uint32_t changed = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = least(changed, least(row[j], row[j + 1]) + 1);
        }
    }
    return row[length];
}

const char *environment_nearest(const char *name)
{
    const char *nearest = NULL;
    size_t length = strlen(name);
    if (length <= PREFIX_LENGTH || length > LONGEST_NAME) return NULL;
    uint32_t best = (uint32_t)(length - PREFIX_LENGTH) / 3 + 1;
    for (uint32_t n = 0; n < known_count(); n++) {
        const char *candidate = known_at(n);
        if (strlen(candidate) > LONGEST_NAME) continue;
        uint32_t differs = distance(name, candidate);
        if (differs >= best) continue;
        best = differs;
        nearest = candidate;
    }
    return nearest;
}

static bool is_known(const char *name)
{
    for (uint32_t n = 0; n < known_count(); n++)
        if (strcmp(known_at(n), name) == 0) return true;
    return false;
}

static void check(const char *entry)
{
    char name[LONGEST_NAME + 1];
    size_t length = strcspn(entry, "=");
    if (length > LONGEST_NAME) length = LONGEST_NAME;
    memcpy(name, entry, length);
    name[length] = '\0';
    if (is_known(name)) return;
    const char *nearest = environment_nearest(name);
    if (nearest) log_warn("%s has no effect; is %s meant?", name, nearest);
    else log_warn("%s has no effect", name);
}

void environment_check(void)
{
    static atomic_flag checked = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&checked)) return;
    (void)log_enabled(LOG_LEVEL_WARN); // warns of a wrong SPYRE_LOG, too
    for (char **entry = environ; entry && *entry; entry++)
        if (strncmp(*entry, prefix, PREFIX_LENGTH) == 0) check(*entry);
}

static spyre_status wrong_word(const char *name, const char *value, const char *const *words,
                               uint32_t count)
{
    text expected = {0};
    for (uint32_t n = 0; n < count; n++)
        text_printf(&expected, "%s%s", n == 0 ? "" : n + 1 < count ? ", " : " or ", words[n]);
    spyre_status status = status_new(SPYRE_INVALID_ARGUMENT, "%s=%s: expected %s", name, value,
                                     text_string(&expected));
    text_free(&expected);
    return status;
}

spyre_status environment_choice(const char *name, const char *const *words, uint32_t count,
                                uint32_t *out_index)
{
    const char *value = variable_text(name);
    *out_index = 0;
    if (!value) return NULL;
    while (*out_index < count && strcmp(words[*out_index], value) != 0) ++*out_index;
    return *out_index < count ? NULL : wrong_word(name, value, words, count);
}
