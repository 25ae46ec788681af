// SPDX-License-Identifier: Apache-2.0
#include "runtime/metrics.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/variable.h"
#include "runtime/metrics_form.h"

enum { CONFIG_LIMIT_BYTES = 1 << 20 };
#define CONFIG "SENLIB_DEVEL_CONFIG_FILE"

_Static_assert((int)SPYRE_METRICS_SEGMENTS == (int)ALLOCATOR_SEGMENTS, "one count a segment");

struct metrics_file {
    pthread_mutex_t lock;
    char path[512];
    int descriptor;                 // -1: not made
    bool tried;                     // to make it
    metrics_form form;
};

// --- Which file

// The entry of a comma list; false when there is none.
static bool list_entry(const char *list, uint32_t index, char *out, size_t capacity)
{
    for (uint32_t n = 0; list && n < index; n++) {
        list = strchr(list, ',');
        if (list) list++;
    }
    if (!list || !*list) return false;
    snprintf(out, capacity, "%.*s", (int)strcspn(list, ","), list);
    return *out != '\0';
}

// As a container names its cards, else one of our own.
static spyre_status find_bus_id(uint32_t card_id, char *out, size_t capacity)
{
    char variable[32];
    snprintf(variable, sizeof variable, "AIU_WORLD_RANK_%u", card_id);
    if (!list_entry(variable_text(variable), 0, out, capacity)) {
        snprintf(variable, sizeof variable, "PCIDEVICE_IBM_COM_AIU_PF");
        if (!list_entry(variable_text(variable), card_id, out, capacity))
            snprintf(out, capacity, "0000:%02x:00.0", card_id + 1);
    }
    if (strspn(out, "0123456789abcdefABCDEF:.") == strlen(out) && strlen(out) <= 12) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "%s=%s: expected a bus id like 0000:13:00.0",
                      variable, variable_text(variable));
}

// Two cards with one file would hide each other.
static spyre_status check_own(const device *d, const char *bus_id)
{
    for (uint32_t n = 0; n < d->index; n++) {
        const metrics_file *other = d->context->devices[n].metrics;
        if (!other || strcmp(other->form.now.bus_id, bus_id) != 0) continue;
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "bus id %s is that of card %u, too (AIU_WORLD_RANK_<card>, "
                          "PCIDEVICE_IBM_COM_AIU_PF)",
                          bus_id, n);
    }
    return NULL;
}

// {"metrics": {"path": "/tmp/metrics.%BUSID"}}; what else stands there is other tools'.
static spyre_status read_path(const char *config, const char *bus_id, char *out, size_t capacity)
{
    json_node root, metrics;
    const char *path = SPYRE_METRICS_PATH;
    TRY(status_at(json_read_file(config, CONFIG_LIMIT_BYTES, &root), CONFIG));
    spyre_status status = json_expect_object(&root);
    if (!status && json_find(&root, "metrics", &metrics)) {
        status = json_expect_object(&metrics);
        json_node given;
        if (!status && json_find(&metrics, "path", &given))
            status = json_get_string(&metrics, "path", &path);
    }
    const char *place = strstr(path, "%BUSID");
    int before = place ? (int)(place - path) : (int)strlen(path);
    if (!status && !place)
        status = json_error_at(&metrics, "path \"%s\" has no %%BUSID", path);
    if (!status && strlen(path) + strlen(bus_id) >= capacity)
        status = json_error_at(&metrics, "path of %zu characters: at most %zu", strlen(path),
                               capacity - strlen(bus_id) - 1);
    if (!status)
        snprintf(out, capacity, "%.*s%s%s", before, path, bus_id, place + strlen("%BUSID"));
    json_close(&root);
    return status_at(status, CONFIG);
}

// --- Its contents; the lock is held

// Written, not mapped: a mapped file that another process truncates kills its writer. The maker of
// the file looks whether that worked; later the work goes on without its monitor.
static bool publish(metrics_file *file)
{
    metrics_form *form = &file->form;
    if (file->descriptor < 0) return true;
    form->checksum = metrics_checksum(form);
    return pwrite(file->descriptor, form, sizeof *form, 0) == (ssize_t)sizeof *form;
}

// A fresh file: whoever still writes to the old one keeps it.
static spyre_status create(metrics_file *file)
{
    TRY(file_remove(file->path));
    file->descriptor = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file->descriptor < 0) return file_error("create", file->path);
    if (publish(file)) return NULL;
    spyre_status status = file_error("write", file->path);
    close(file->descriptor);
    file->descriptor = -1;
    unlink(file->path);
    return status;
}

void metrics_create(metrics_file *file)
{
    pthread_mutex_lock(&file->lock);
    spyre_status status = file->tried ? NULL : create(file);
    file->tried = true;
    pthread_mutex_unlock(&file->lock);
    if (!status) return;
    log_warn("%s: %s; the card works without a metrics file", CONFIG, spyre_status_message(status));
    spyre_status_free(status);
}

static spyre_status describe(const device *d, const char *config, metrics_file *file)
{
    spyre_metrics *now = &file->form.now;
    TRY(find_bus_id(d->index, now->bus_id, sizeof now->bus_id));
    TRY(check_own(d, now->bus_id));
    TRY(read_path(config, now->bus_id, file->path, sizeof file->path));
    now->process = getpid();
    now->opened_ns = clock_now_ns();
    now->card = d->index;
    file->form.magic = METRICS_MAGIC;
    file->form.bytes = sizeof file->form;
    file->descriptor = -1;
    return NULL;
}

spyre_status metrics_open(const device *d, metrics_file **out_file)
{
    const char *config = variable_text(CONFIG);
    *out_file = NULL;
    if (!config) return NULL;
    metrics_file *file = calloc(1, sizeof *file);
    TRY_ALLOC(file);
    spyre_status status = describe(d, config, file);
    if (status) {
        free(file);
        return status;
    }
    pthread_mutex_init(&file->lock, NULL);
    *out_file = file;
    return NULL;
}

void metrics_close(metrics_file *file)
{
    if (!file) return;
    if (file->descriptor >= 0) close(file->descriptor);
    pthread_mutex_destroy(&file->lock);
    free(file);
}

void metrics_begin(metrics_file *file, const task *t)
{
    if (!t->work) return;
    pthread_mutex_lock(&file->lock);
    file->form.now.launch_begin_ns = clock_now_ns();
    publish(file);
    pthread_mutex_unlock(&file->lock);
}

static void add_launch(spyre_metrics *now, const card_counters *work)
{
    now->launches++;
    now->busy_ns += clock_now_ns() - now->launch_begin_ns;
    now->launch_begin_ns = 0;
    now->compute_us += work->us;
    now->pt_busy_us += work->busy_us[CARD_PT];
    now->memory_read_bytes += work->memory_read_bytes;
    now->memory_written_bytes += work->memory_written_bytes;
}

static void add_transfer(spyre_metrics *now, spyre_activity_kind kind, int64_t bytes)
{
    if (kind == SPYRE_ACTIVITY_EXCHANGE) return;    // metrics_exchange()
    bool writes = kind != SPYRE_ACTIVITY_COPY_TO_HOST;
    bool reads = kind == SPYRE_ACTIVITY_COPY_TO_HOST || kind == SPYRE_ACTIVITY_COPY_ON_CARD;
    if (writes) now->memory_written_bytes += bytes;
    if (reads) now->memory_read_bytes += bytes;
    if (kind == SPYRE_ACTIVITY_COPY_TO_CARD) {
        now->receipts++;
        now->received_bytes += bytes;
    } else if (kind == SPYRE_ACTIVITY_COPY_TO_HOST) {
        now->sendings++;
        now->sent_bytes += bytes;
    }
}

void metrics_end(metrics_file *file, const task *t)
{
    if (!t->recorded) return;
    pthread_mutex_lock(&file->lock);
    spyre_metrics *now = &file->form.now;
    if (t->work) add_launch(now, t->work);
    else add_transfer(now, t->kind, t->bytes);
    if (t->card_end_us > now->clock_us) now->clock_us = t->card_end_us;
    publish(file);
    pthread_mutex_unlock(&file->lock);
}

void metrics_exchange(metrics_file *file, double sent_bytes, double received_bytes)
{
    pthread_mutex_lock(&file->lock);
    spyre_metrics *now = &file->form.now;
    now->rdma_sent_bytes += (int64_t)sent_bytes;
    now->rdma_received_bytes += (int64_t)received_bytes;
    now->rdma_sendings += sent_bytes > 0;
    now->rdma_receipts += received_bytes > 0;
    pthread_mutex_unlock(&file->lock);              // metrics_end() publishes it
}

void metrics_memory(const device *d, uint64_t address, int64_t bytes)
{
    metrics_file *file = d->metrics;
    spyre_metrics *now = &file->form.now;
    uint64_t segment = address / CARD_SEGMENT_BYTES;
    pthread_mutex_lock(&file->lock);
    now->reserved_bytes = (int64_t)d->memory.reserved_bytes;
    now->allocated_bytes = d->statistics.allocated_bytes;
    now->peak_bytes = d->statistics.peak_bytes;
    if (segment < SPYRE_METRICS_SEGMENTS) now->segment_bytes[segment] += bytes;
    publish(file);
    pthread_mutex_unlock(&file->lock);
}
