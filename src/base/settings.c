// SPDX-License-Identifier: Apache-2.0
#include "spyre/settings.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"

typedef enum { COUNT, SHARE, FLAG, CHOICE, LIST } setting_kind;

typedef struct {
    spyre_setting about;
    setting_kind kind;
    size_t offset;          // of the field in spyre_settings
    double initial, low, high;
    const char *choices;
} setting_row;

#define AT(name) offsetof(spyre_settings, name)
static const setting_row rows[] = {
#define SETTING_COUNT(name, variable, initial, low, high, summary)                                 \
    {{#name, variable, "a whole number " #low ".." #high, summary}, COUNT, AT(name), initial, low,   \
     high, ""},
#define SETTING_SHARE(name, variable, initial, summary)                                            \
    {{#name, variable, "a number 0..1", summary}, SHARE, AT(name), initial, 0, 1, ""},
#define SETTING_FLAG(name, variable, initial, summary)                                             \
    {{#name, variable, "0 or 1", summary}, FLAG, AT(name), initial, 0, 1, ""},
#define SETTING_CHOICE(name, variable, choices, summary)                                           \
    {{#name, variable, "one of " choices, summary}, CHOICE, AT(name), 0, 0, 0, choices},
#define SETTING_LIST(name, variable, summary)                                                      \
    {{#name, variable, "names between commas", summary}, LIST, AT(name), 0, 0, 0, ""},
#include "spyre/setting.def"
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

uint32_t spyre_setting_count(void)
{
    return ROW_COUNT;
}

const spyre_setting *spyre_setting_at(uint32_t index)
{
    return index < ROW_COUNT ? &rows[index].about : NULL;
}

// --- Fields by row

static void store(spyre_settings *settings, const setting_row *row, double value)
{
    char *field = (char *)settings + row->offset;
    switch (row->kind) {
    case COUNT:
    case CHOICE:
        *(uint32_t *)(void *)field = (uint32_t)value;
        break;
    case SHARE:
        *(double *)(void *)field = value;
        break;
    case FLAG:
        *(bool *)field = value != 0;
        break;
    case LIST:
        *(const char **)(void *)field = NULL;
        break;
    }
}

spyre_settings spyre_settings_default(void)
{
    spyre_settings settings;
    memset(&settings, 0, sizeof settings);
    for (uint32_t i = 0; i < ROW_COUNT; i++) store(&settings, &rows[i], rows[i].initial);
    return settings;
}

// --- Text form

static bool parse_number(const char *value, bool whole, double *out_number)
{
    char *end;
    double number = strtod(value, &end);
    bool plain = strspn(value, "0123456789.") == strlen(value); // no hex, exponent, sign, nan
    if (end == value || *end || !plain || (whole && number != floor(number))) return false;
    *out_number = number;
    return true;
}

static bool parse_flag(const char *value, double *out_number)
{
    *out_number = strcmp(value, "1") == 0;
    return *out_number == 1 || strcmp(value, "0") == 0;
}

// Index of `value` among names between spaces.
static bool parse_choice(const char *choices, const char *value, double *out_index)
{
    size_t length = strlen(value);
    *out_index = 0;
    for (const char *at = choices; *at; *out_index += 1) {
        size_t entry = strcspn(at, " ");
        if (entry == length && memcmp(at, value, length) == 0) return true;
        at += entry;
        at += strspn(at, " ");
    }
    return false;
}

static bool parse(const setting_row *row, const char *value, double *out_number)
{
    switch (row->kind) {
    case COUNT:
    case SHARE:
        return parse_number(value, row->kind == COUNT, out_number) && *out_number >= row->low &&
               *out_number <= row->high;
    case FLAG:
        return parse_flag(value, out_number);
    case CHOICE:
        return parse_choice(row->choices, value, out_number);
    case LIST:
        break;
    }
    return true;
}

// `title` is what the user wrote: the variable or the name.
static spyre_status set(spyre_settings *settings, const setting_row *row, const char *title,
                        const char *value)
{
    double number = 0;
    if (!parse(row, value, &number))
        return status_new(SPYRE_UNSUPPORTED, "invalid %s value '%.60s': expected %s", title, value,
                          row->about.rule);
    store(settings, row, number);
    if (row->kind == LIST && *value)
        *(const char **)(void *)((char *)settings + row->offset) = value;
    return NULL;
}

spyre_status spyre_settings_from_environment(spyre_settings *out_settings)
{
    *out_settings = spyre_settings_default();
    for (uint32_t i = 0; i < ROW_COUNT; i++) {
        const char *variable = rows[i].about.variable;
        const char *value = *variable ? getenv(variable) : NULL;
        if (value && *value) TRY(set(out_settings, &rows[i], variable, value));
    }
    return NULL;
}

spyre_status spyre_settings_set(spyre_settings *settings, const char *name, const char *value)
{
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].about.name, name) == 0) return set(settings, &rows[i], name, value);
    return status_new(SPYRE_INVALID_ARGUMENT, "no setting is named '%.60s'", name);
}

static void print_choice(text *out, const char *choices, uint32_t index)
{
    for (; index > 0; index--) choices += strcspn(choices, " ") + 1;
    text_append_bytes(out, choices, strcspn(choices, " "));
}

static void print(text *out, const setting_row *row, const spyre_settings *settings)
{
    const void *field = (const char *)settings + row->offset;
    text_printf(out, "%s=", row->about.name);
    switch (row->kind) {
    case COUNT:
        text_printf(out, "%" PRIu32, *(const uint32_t *)field);
        break;
    case SHARE:
        text_printf(out, "%.17g", *(const double *)field);
        break;
    case FLAG:
        text_append(out, *(const bool *)field ? "1" : "0");
        break;
    case CHOICE:
        print_choice(out, row->choices, *(const uint32_t *)field);
        break;
    case LIST:
        if (*(const char *const *)field) text_append(out, *(const char *const *)field);
        break;
    }
    text_append(out, "\n");
}

spyre_status spyre_settings_print(const spyre_settings *settings, char **out_text)
{
    text out = {0};
    for (uint32_t i = 0; i < ROW_COUNT; i++) print(&out, &rows[i], settings);
    spyre_status status = text_status(&out);
    *out_text = status ? NULL : out.bytes;
    if (status) text_free(&out);
    return status;
}
