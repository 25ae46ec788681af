// SPDX-License-Identifier: Apache-2.0
//
// Loops that the compiler vectorises for several generations of processors and chooses from at load
// time. Only for loops whose results cannot depend on that: no fused multiply-add (the build
// forbids contraction), no reassociation.
#ifndef BASE_TARGET_CLONES_H
#define BASE_TARGET_CLONES_H

// The thread sanitizer cannot bear the resolvers, which run before it is ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define BASE_CLONES \
    __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define BASE_CLONES
#endif

// In front of a loop whose iterations share no memory but element for element. Clang knows another
// pragma, and complains where that cannot help.
#ifdef __clang__
#define BASE_INDEPENDENT
#else
#define BASE_INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
