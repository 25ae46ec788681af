// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "runtime/metrics_form.h"

enum { TRIES = 1000 };

static spyre_status read_form(int descriptor, const char *path, metrics_form *form)
{
    ssize_t length = pread(descriptor, form, sizeof *form, 0);
    if (length < 0) return file_error("read", path);
    if (length == (ssize_t)sizeof *form && form->magic == METRICS_MAGIC &&
        form->bytes == sizeof *form)
        return NULL;
    return status_new(SPYRE_INVALID_FORMAT, "%s: no metrics file of this version", path);
}

// Whether nothing was written while the form was read.
static bool is_settled(int descriptor, const metrics_form *form)
{
    metrics_form again;
    return form->sequence % 2 == 0 &&
           pread(descriptor, &again, sizeof again, 0) == (ssize_t)sizeof again &&
           again.sequence == form->sequence;
}

spyre_status spyre_metrics_read(const char *path, spyre_metrics *out_metrics)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return file_error("open", path);
    metrics_form form;
    spyre_status status = NULL;
    bool settled = false;
    for (int n = 0; n < TRIES && !status && !settled; n++) {
        status = read_form(descriptor, path, &form);
        settled = !status && is_settled(descriptor, &form);
    }
    close(descriptor);
    if (status) return status;
    if (!settled) return status_new(SPYRE_IO, "%s: its writer stopped in the middle", path);
    form.now.bus_id[sizeof form.now.bus_id - 1] = '\0';
    *out_metrics = form.now;
    return NULL;
}
