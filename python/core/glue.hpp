// SPDX-License-Identifier: Apache-2.0
//
// What the C++ files share.
#ifndef CORE_GLUE_HPP
#define CORE_GLUE_HPP

#include <c10/core/Device.h>

#include "glue.h"

namespace at {
struct HostAllocator;
}

constexpr auto kSpyre = c10::DeviceType::PrivateUse1;
using Index = c10::DeviceIndex;

inline void check(bool ok)
{
    if (!ok) glue_throw();
}

inline c10::Device card(int64_t index)
{
    return {kSpyre, static_cast<Index>(index)};
}

at::HostAllocator &pinned_allocator();      // allocators.cpp
void allocators_register();

#endif
