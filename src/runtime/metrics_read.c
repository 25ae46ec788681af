// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdbool.h>
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

spyre_status spyre_metrics_read(const char *path, spyre_metrics *out_metrics)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return file_error("open", path);
    metrics_form form;
    spyre_status status = NULL;
    bool whole = false;
    for (int n = 0; n < TRIES && !status && !whole; n++) {
        status = read_form(descriptor, path, &form);
        whole = !status && form.checksum == metrics_checksum(&form);
    }
    close(descriptor);
    TRY(status);
    if (!whole) return status_new(SPYRE_INVALID_FORMAT, "%s: its checksum is wrong", path);
    form.now.bus_id[sizeof form.now.bus_id - 1] = '\0';
    *out_metrics = form.now;
    return NULL;
}
