// SPDX-License-Identifier: Apache-2.0
//
// A metrics file: this struct, written in one piece again and again. Whoever reads it meanwhile, or
// finds it damaged, sees that by the checksum.
#ifndef RUNTIME_METRICS_FORM_H
#define RUNTIME_METRICS_FORM_H

#include <xxhash.h>

#include "spyre/metrics.h"

#define METRICS_MAGIC UINT64_C(0x3353434952544d53)  // "SMTRICS3"

typedef struct {
    uint64_t magic, bytes, checksum;    // of `now`
    spyre_metrics now;
} metrics_form;

static inline uint64_t metrics_checksum(const metrics_form *form)
{
    return XXH3_64bits(&form->now, sizeof form->now);
}

#endif
