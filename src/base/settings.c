// SPDX-License-Identifier: Apache-2.0
#include "spyre/settings.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "base/variable.h"

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
    {{#name, variable, "a whole number " #low ".." #high, summary}, COUNT, AT(name), initial,      \
     low, high, ""},
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

static double load(const spyre_settings *settings, const setting_row *row)
{
    const void *field = (const char *)settings + row->offset;
    switch (row->kind) {
    case COUNT:
    case CHOICE:
        return *(const uint32_t *)field;
    case SHARE:
        return *(const double *)field;
    case FLAG:
        return *(const bool *)field;
    case LIST:
        break;
    }
    return 0;
}

static uint32_t count_words(const char *words)
{
    uint32_t count = *words != 0;
    for (; *words; words++) count += *words == ' ';
    return count;
}

static bool obeys(const setting_row *row, double value)
{
    if (row->kind == CHOICE) return value < count_words(row->choices);
    return value >= row->low && value <= row->high; // false for NaN
}

// What users know a setting by.
static const char *title_of(const setting_row *row)
{
    return *row->about.variable ? row->about.variable : row->about.name;
}

spyre_status spyre_settings_check(const spyre_settings *settings)
{
    for (uint32_t i = 0; i < ROW_COUNT; i++) {
        double value = load(settings, &rows[i]);
        if (!obeys(&rows[i], value))
            return status_new(SPYRE_UNSUPPORTED, "invalid %s value %g: expected %s",
                              title_of(&rows[i]), value, rows[i].about.rule);
    }
    return NULL;
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

// Index of the choice that has the name `value`.
static bool parse_choice(const char *choices, const char *value, double *out_index)
{
    size_t length = strlen(value);
    *out_index = 0;
    for (const char *at = choices; *at; at++) {
        size_t name = strcspn(at, " =");
        if (name == length && memcmp(at, value, length) == 0) return true;
        at += name;
        *out_index += *at == ' ';
        if (!*at) break;
    }
    return false;
}

static bool parse(const setting_row *row, const char *value, double *out_number)
{
    switch (row->kind) {
    case COUNT:
    case SHARE:
        return parse_number(value, row->kind == COUNT, out_number) && obeys(row, *out_number);
    case FLAG:
        return parse_flag(value, out_number);
    case CHOICE:
        return parse_choice(row->choices, value, out_number);
    case LIST:
        break;
    }
    return true;
}

static spyre_status set(spyre_settings *settings, const setting_row *row, const char *value)
{
    double number = 0;
    if (!parse(row, value, &number))
        return status_new(SPYRE_UNSUPPORTED, "invalid %s value '%.60s': expected %s", title_of(row),
                          value, row->about.rule);
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
        const char *value = *variable ? variable_text(variable) : NULL;
        if (value) TRY(set(out_settings, &rows[i], value));
    }
    return NULL;
}

spyre_status spyre_settings_set(spyre_settings *settings, const char *name, const char *value)
{
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].about.name, name) == 0) return set(settings, &rows[i], value);
    const char *meant = "";
    for (uint32_t i = 0; *name && i < ROW_COUNT && !*meant; i++)
        if (strcmp(rows[i].about.variable, name) == 0) meant = rows[i].about.name;
    return status_new(SPYRE_INVALID_ARGUMENT, "no setting is named '%.60s'%s%s", name,
                      *meant ? "; it is the variable of " : "", meant);
}

static const char *list_of(const spyre_settings *settings, const setting_row *row)
{
    const char *list = *(const char *const *)(const void *)((const char *)settings + row->offset);
    return list ? list : "";
}

static void print_choice(text *out, const char *choices, uint32_t index)
{
    for (; index > 0; index--) choices += strcspn(choices, " ") + 1;
    text_append_bytes(out, choices, strcspn(choices, " ="));
}

static void print(text *out, const setting_row *row, const spyre_settings *settings)
{
    double value = load(settings, row);
    text_printf(out, "%s=", row->about.name);
    switch (row->kind) {
    case COUNT:
    case FLAG:
    case SHARE:
        text_printf(out, "%.17g", value);
        break;
    case CHOICE:
        print_choice(out, row->choices, (uint32_t)value);
        break;
    case LIST:
        text_append(out, list_of(settings, row));
        break;
    }
    text_append(out, "\n");
}

spyre_status spyre_settings_print(const spyre_settings *settings, char **out_text)
{
    text out = {0};
    for (uint32_t i = 0; i < ROW_COUNT; i++) print(&out, &rows[i], settings);
    return text_give(&out, NULL, out_text);
}
