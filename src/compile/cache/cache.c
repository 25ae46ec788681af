// SPDX-License-Identifier: Apache-2.0
//
// A request is answered by an executable in use, else by a file, else by the compiler.
#include "compile/cache/cache.h"

#include <stdatomic.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "compile/cache/cache_refusal.h"
#include "compile/cache/cache_table.h"
#include "compile/files/executable_bytes.h"
#include "compile/statistics.h"

typedef struct {
    arena *memory;              // of the request
    const spyre_graph *graph;
    const spyre_compile_options *options;
    const char *subject;        // all that determines the executable: options, then the graph
    size_t source_at;           // where the graph's text starts in it
    content_key key;
    cache_config config;
} request;

// --- Files

// Once a process, whether it is reading or writing that fails. The status names the path.
static void warn_once(spyre_status status)
{
    static atomic_bool warned;
    if (!atomic_exchange(&warned, true))
        log_warn("compile cache: %s; programs are compiled anew (SPYRE_CACHE_DIR chooses another "
                 "directory)", spyre_status_message(status));
    spyre_status_free(status);
}

static void reject(const request *r, spyre_status status)
{
    statistics_add(STATISTIC_REJECTED, 1);
    log_warn("compile cache: removed %s", spyre_status_message(status));
    spyre_status_free(status);
    status = cache_disk_remove(r->memory, &r->config, r->key);
    if (status) log_warn("compile cache: %s", spyre_status_message(status));
    spyre_status_free(status);
}

// What reading a file came to.
static void settle(const request *r, spyre_status status)
{
    if (spyre_status_code(status) == SPYRE_INVALID_FORMAT) reject(r, status);
    else if (status) warn_once(status);
}

static bool has_files(const request *r)
{
    return r->config.enabled && r->config.directory && sealed_file_is_possible();
}

// The settings' lists belong to the caller.
static bool own_lists(arena *memory, spyre_settings *settings)
{
    bool good = true;
#define SETTING_LIST(name, variable, summary)                                                      \
    good = good && (!settings->name || (settings->name = arena_strdup(memory, settings->name)));
#include "spyre/setting.def"
    return good;
}

static spyre_status remember(const request *r, spyre_executable *e)
{
    e->options = *r->options;
    e->options.cache = false;
    if (e->options.plan) TRY_ALLOC(e->options.plan = arena_strdup(e->memory, e->options.plan));
    e->subject = arena_strdup(e->memory, r->subject);
    TRY_ALLOC(e->subject);
    e->source = e->subject + r->source_at;
    e->key = r->key;
    return own_lists(e->memory, &e->options.settings) ? NULL : status_no_memory();
}

// What a file says: an executable or the reason why there is none.
static spyre_status take(const request *r, spyre_executable *e, const uint8_t *content,
                         size_t length, spyre_status *out_refusal)
{
    const char *reason;
    TRY(cache_refusal_take(content, length, r->subject, &reason));
    if (reason) {
        *out_refusal = status_new(SPYRE_UNSUPPORTED, "%s", reason);
        return NULL;
    }
    TRY(executable_take(e, r->subject, content, length));
    return remember(r, e);
}

// The executable's file; null when there is none that is good, or when it is a refusal.
static spyre_executable *load(const request *r, spyre_status *out_refusal)
{
    const uint8_t *content = NULL;
    size_t length = 0;
    if (!has_files(r)) return NULL;
    spyre_executable *e = executable_create();
    if (!e) return NULL;
    spyre_status status = cache_disk_read(e->memory, &r->config, r->key, &content, &length);
    if (!status && content) status = take(r, e, content, length, out_refusal);
    if (!status && content)
        statistics_add(*out_refusal ? STATISTIC_REFUSALS : STATISTIC_DISK_HITS, 1);
    if (!status && content && !*out_refusal) return e;
    spyre_executable_destroy(e);
    settle(r, status);
    return NULL;
}

// Writes the content, unless it could not be made; frees it.
static void write_file(const request *r, text *content, spyre_status status)
{
    int64_t evictions = 0, began = clock_now_ns();
    if (!status) status = text_status(content);
    if (!status)
        status = cache_disk_write(r->memory, &r->config, r->key, content->bytes, content->length,
                                  &evictions);
    statistics_add(STATISTIC_EVICTIONS, evictions);
    text_free(content);
    statistics_add(status ? STATISTIC_STORE_FAILURES : STATISTIC_STORES, 1);
    if (status) warn_once(status);
    statistics_add(STATISTIC_CACHE_US, (clock_now_ns() - began) / 1000);
}

// What the compiler made, or why it refused.
static void store(const request *r, const spyre_executable *e, const char *reason)
{
    text content = {0};
    spyre_status status = NULL;
    if (!has_files(r)) return;
    if (e) status = executable_put(e, e->subject, &content);
    else cache_refusal_put(r->subject, reason, &content);
    write_file(r, &content, status);
}

// --- Other bytes

static spyre_status begin(request *r, arena *memory, const char *subject)
{
    *r = (request){.memory = memory, .subject = subject,
                   .key = sealed_file_key(subject, strlen(subject))};
    return cache_config_read(memory, &r->config);
}

spyre_status cache_recall(arena *memory, const char *subject, const uint8_t **out_bytes,
                          size_t *out_length)
{
    request r;
    const uint8_t *content = NULL;
    size_t length = 0;
    *out_bytes = NULL;
    TRY(begin(&r, memory, subject));
    if (!has_files(&r)) return NULL;
    spyre_status status = cache_disk_read(memory, &r.config, r.key, &content, &length);
    bytes_reader from = {.bytes = content, .length = length};
    if (!status && content && strcmp(bytes_take_string(&from), subject) == 0) {
        *out_bytes = content + from.at;
        *out_length = length - from.at;
    }
    settle(&r, status);
    return NULL;
}

void cache_keep(const char *subject, const text *bytes)
{
    request r;
    text content = {0};
    arena *memory = arena_create();
    if (!memory) return;
    spyre_status status = begin(&r, memory, subject);
    if (!status && has_files(&r)) {
        bytes_put_string(&content, subject);
        bytes_put(&content, bytes->bytes, bytes->length);
        write_file(&r, &content, NULL);
    }
    spyre_status_free(status);
    arena_destroy(memory);
}

// --- Requests

// Every option that changes an executable has to be in front of the graph.
static spyre_status make_key(request *r)
{
    char *settings, *graph;
    text subject = {0};
    TRY(spyre_settings_print(&r->options->settings, &settings));
    text_printf(&subject, "%shost_fallback=%d\n", settings, r->options->host_fallback);
    spyre_string_free(settings);
    if (r->options->plan) text_append(&subject, r->options->plan);
    r->source_at = subject.length;
    spyre_status status = spyre_graph_print(r->graph, &graph);
    if (!status) text_append(&subject, graph);
    if (!status) spyre_string_free(graph);
    if (!status) status = text_status(&subject);
    if (!status) {
        r->key = sealed_file_key(subject.bytes, subject.length);
        r->subject = arena_strdup(r->memory, subject.bytes);
        if (!r->subject) status = status_no_memory();
    }
    text_free(&subject);
    return status;
}

static spyre_status compile_and_store(const request *r, spyre_executable **out)
{
    spyre_status status = executable_compile(r->graph, r->options, out);
    if (spyre_status_code(status) == SPYRE_UNSUPPORTED)
        store(r, NULL, spyre_status_message(status));
    TRY(status);
    status = remember(r, *out);
    if (status) {
        spyre_executable_destroy(*out);
        return status;
    }
    store(r, *out, NULL);
    return NULL;
}

static spyre_status answer(request *r, spyre_executable **out)
{
    int64_t began = clock_now_ns();
    spyre_status refusal = NULL;
    TRY(make_key(r));
    *out = cache_table_find(r->key, r->subject);
    if (*out) statistics_add(STATISTIC_MEMORY_HITS, 1);
    spyre_executable *made = *out ? NULL : load(r, &refusal);
    statistics_add(STATISTIC_CACHE_US, (clock_now_ns() - began) / 1000);
    if (*out || refusal) return refusal;
    if (!made) {
        statistics_add(STATISTIC_MISSES, 1);
        TRY(compile_and_store(r, &made));
    }
    *out = cache_table_add(made);
    if (*out != made) spyre_executable_destroy(made); // another thread was faster
    return NULL;
}

spyre_status cache_compile(const spyre_graph *graph, const spyre_compile_options *options,
                           spyre_executable **out_executable)
{
    request r = {.memory = arena_create(), .graph = graph, .options = options};
    *out_executable = NULL;
    TRY_ALLOC(r.memory);
    spyre_status status = cache_config_read(r.memory, &r.config);
    if (!status)
        status = r.config.enabled ? answer(&r, out_executable)
                                  : executable_compile(graph, options, out_executable);
    arena_destroy(r.memory);
    return status;
}
