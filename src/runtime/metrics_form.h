// SPDX-License-Identifier: Apache-2.0
//
// A metrics file: this struct. The sequence is odd while the rest is being written.
#ifndef RUNTIME_METRICS_FORM_H
#define RUNTIME_METRICS_FORM_H

#include "spyre/metrics.h"

#define METRICS_MAGIC UINT64_C(0x3153434952544d53)  // "SMTRICS1"

typedef struct {
    uint64_t magic, bytes, sequence;
    spyre_metrics now;
} metrics_form;

#endif
