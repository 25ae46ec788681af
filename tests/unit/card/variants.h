// SPDX-License-Identifier: Apache-2.0
//
// The kernels of every SIMD level that this build has, whether or not this host can run them.
#ifndef TESTS_CARD_VARIANTS_H
#define TESTS_CARD_VARIANTS_H

#include "card/simd/simd.h"
#include "tensor/convert_kernels.h"

typedef struct {
    const simd_table *table;
    const convert_kernels *host;
} variant;

static const variant variants[] = {
    {&simd_portable, &convert_portable},
#if defined(__x86_64__)
    {&simd_avx2, &convert_avx2},
    {&simd_avx512, &convert_avx512},
#endif
};
enum { VARIANTS = sizeof variants / sizeof *variants };

#endif
