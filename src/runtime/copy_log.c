// SPDX-License-Identifier: Apache-2.0
#include "runtime/copy_log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/variable.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool enabled;

static void read_environment(void)
{
    const char *value = variable_text("TORCH_SPYRE_DEBUG");
    enabled = value && strcmp(value, "1") == 0;
}

bool copy_log_enabled(void)
{
    pthread_once(&once, read_environment);
    return enabled;
}

static void put_list(text *t, const int64_t *numbers, uint32_t count)
{
    text_append(t, "[");
    for (uint32_t i = 0; i < count; i++)
        text_printf(t, "%s%" PRId64, i ? ", " : "", numbers[i]);
    text_append(t, "]");
}

static void put_descriptor(text *t, const dci *descriptor)
{
    text_printf(t, "{\"host_format\": \"%s\", \"card_format\": \"%s\", \"copies\": [",
                spyre_format_name(descriptor->host_format),
                spyre_format_name(descriptor->card_format));
    for (uint32_t i = 0; i < descriptor->copy_count; i++) {
        const dci_copy *copy = &descriptor->copies[i];
        text_append(t, i ? ", {\"size\": " : "{\"size\": ");
        put_list(t, copy->size, copy->rank);
        text_append(t, ", \"card_stride\": ");
        put_list(t, copy->card_stride, copy->rank);
        text_append(t, ", \"host_stride\": ");
        put_list(t, copy->host_stride, copy->rank);
        text_printf(t, ", \"card_offset\": %" PRId64 ", \"host_offset\": %" PRId64 "}",
                    copy->card_offset, copy->host_offset);
    }
    text_append(t, "]}");
}

void copy_log_write(const char *direction, const spyre_transfer *transfer, const dci *descriptor,
                    spyre_status status)
{
    char layout[1024];
    text t = {0};
    const spyre_view *shape = transfer->part   ? transfer->part
                              : transfer->view ? transfer->view
                                               : transfer->storage;
    spyre_layout_format(transfer->layout, layout, sizeof layout);
    text_printf(&t, "spyre copy %s: shape ", direction);
    put_list(&t, shape->size, shape->rank);
    text_printf(&t, ", %s, %s, DCI ", spyre_dtype_name(transfer->dtype), layout);
    put_descriptor(&t, descriptor);
    text_printf(&t, ", %s\n", spyre_status_message(status));
    fputs(text_string(&t), stderr);
    text_free(&t);
}
