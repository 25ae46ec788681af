// SPDX-License-Identifier: Apache-2.0
//
// Settings of the compiler, one field a row of setting.def, and their text form. Values of LIST
// settings are borrowed from who set them.
#ifndef SPYRE_SETTINGS_H
#define SPYRE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "spyre/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
#define SETTING_COUNT(name, variable, initial, low, high, summary) uint32_t name;
#define SETTING_SHARE(name, variable, initial, summary) double name;
#define SETTING_FLAG(name, variable, initial, summary) bool name;
#define SETTING_CHOICE(name, variable, choices, summary) uint32_t name; // index into choices
#define SETTING_LIST(name, variable, summary) const char *name;         // or null
#include "spyre/setting.def"
} spyre_settings;

// What can be said about a setting; strings are static.
typedef struct {
    const char *name;
    const char *variable;   // of the environment, or ""
    const char *rule;       // "a whole number 1..32"
    const char *summary;
} spyre_setting;

SPYRE_API uint32_t spyre_setting_count(void);
SPYRE_API const spyre_setting *spyre_setting_at(uint32_t index);

// The defaults of setting.def.
SPYRE_API spyre_settings spyre_settings_default(void);

// The defaults, changed by the variables that are set and not empty. SPYRE_UNSUPPORTED names the
// variable (the setting, where there is none), value and rule.
SPYRE_API SPYRE_MUST_CHECK spyre_status
spyre_settings_from_environment(spyre_settings *out_settings);

// Sets one from its text form, by the setting's own name. Errors as above, or
// SPYRE_INVALID_ARGUMENT for an unknown name.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_settings_set(spyre_settings *settings,
                                                           const char *name, const char *value);

// Whether every value obeys its rule; errors as above. spyre_compile() checks what it is given.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_settings_check(const spyre_settings *settings);

// All of them, "name=value" a line in the order of setting.def: equal text, equal settings. The
// caller frees it with spyre_string_free() of spyre/graph.h.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_settings_print(const spyre_settings *settings,
                                                             char **out_text);

#ifdef __cplusplus
}
#endif
#endif
