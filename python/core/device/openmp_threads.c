// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's own threads as the card's (spyre_use_thread_team). They are OpenMP's, in the runtime
// that PyTorch has loaded: a second one would have threads of its own. Its entry points are the ABI
// of GCC's libgomp, which LLVM's libomp has too
// (https://gcc.gnu.org/onlinedocs/libgomp/Implementing-PARALLEL-construct.html).
#include <stdlib.h>
#include <strings.h>

#include "core.h"
#include "spyre/runtime.h"

#define OF_RUNTIME __attribute__((weak))   // null where PyTorch has another kind of threads

extern OF_RUNTIME void GOMP_parallel(void (*body)(void *), void *context, unsigned threads,
                                     unsigned flags);
extern OF_RUNTIME int omp_get_max_threads(void);
extern OF_RUNTIME int omp_in_parallel(void);

static bool run_on_pytorch(void (*body)(void *), void *context, uint32_t threads)
{
    if (omp_in_parallel() || omp_get_max_threads() < (int)threads) return false;
    GOMP_parallel(body, context, threads, 0);
    return true;
}

// Threads that sleep at once compete for nothing, and to wake them takes longer than the card's.
static bool threads_spin(void)
{
    const char *policy = getenv("OMP_WAIT_POLICY");
    return !policy || strcasecmp(policy, "passive") != 0;
}

void core_use_pytorch_threads(void)
{
    bool known = GOMP_parallel && omp_get_max_threads && omp_in_parallel;
    if (known && threads_spin()) spyre_use_thread_team(run_on_pytorch);
}
