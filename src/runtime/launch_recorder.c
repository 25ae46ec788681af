// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch_recorder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "base/variable.h"
#include "runtime/launch_record_file.h"

struct recording {
    arena *memory;
    launch_record record;
    bool failed;
};

static void fail(recording *r, spyre_status status)
{
    if (!status) return;
    log_warn("SPYRE_RECORD: %s", spyre_status_message(status));
    spyre_status_free(status);
    r->failed = true;
}

static bool on;

static void read_variable(void)
{
    on = variable_text("SPYRE_RECORD") != NULL;
}

bool recorder_is_on(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_variable);
    return on;
}

// Launches come one at a time or at once; the last write of a count need not be of the largest.
static void tell_count(unsigned long long count)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static unsigned long long most;
    const char *path = variable_text("SPYRE_RECORD_COUNT");
    if (!path) return;
    pthread_mutex_lock(&lock);
    if (count > most) most = count;
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", most);
    spyre_status_free(file_write(path, digits, (size_t)length));
    pthread_mutex_unlock(&lock);
}

static bool is_wanted(void)
{
    static atomic_ullong launches;
    if (!recorder_is_on()) return false;
    const char *given = variable_text("SPYRE_RECORD_LAUNCH");
    unsigned long long wanted = given ? strtoull(given, NULL, 10) : 0;
    unsigned long long earlier = atomic_fetch_add(&launches, 1);
    if (earlier < wanted) tell_count(earlier + 1);
    return earlier == wanted;
}

static spyre_status describe(recording *r, const isa_program *program, const char *name,
                             bool forgets_lx)
{
    uint8_t *image;
    r->record = (launch_record){.memory = r->memory, .forgets_lx = forgets_lx};
    TRY(isa_encode(r->memory, program, &image, &r->record.image_bytes));
    r->record.image = image;
    r->record.name = arena_printf(r->memory, "%s", name);
    return r->record.name ? NULL : status_no_memory();
}

recording *recorder_begin(const isa_program *program, const char *name, bool forgets_lx)
{
    if (!is_wanted()) return NULL;
    recording *r = calloc(1, sizeof *r);
    if (r) r->memory = arena_create();
    if (!r || !r->memory) {
        free(r);
        log_warn("SPYRE_RECORD: out of host memory");
        return NULL;
    }
    fail(r, describe(r, program, name, forgets_lx));
    return r;
}

void recorder_window(recording *r, const card_argument *argument, bool kept)
{
    launch_window window = {.base = argument->base, .bytes = argument->limit, .kept = kept};
    if (!r->failed) fail(r, VEC_PUSH(r->memory, &r->record.windows, window));
}

void recorder_before(recording *r, card *c)
{
    if (!r->failed) fail(r, launch_record_take(&r->record, c));
}

void recorder_after(recording *r, card *c, bool faulted)
{
    if (!r->failed) fail(r, launch_record_finish(&r->record, c, faulted));
    if (!r->failed) fail(r, launch_record_file_write(&r->record, variable_text("SPYRE_RECORD")));
}

void recorder_drop(recording *r)
{
    if (!r) return;
    arena_destroy(r->memory);
    free(r);
}
