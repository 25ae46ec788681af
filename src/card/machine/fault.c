// SPDX-License-Identifier: Apache-2.0
//
// Faults: where a core stood when an access was out of bounds or nothing could go on, and the error
// that says so.
#include <stdarg.h>
#include <stdio.h>

#include "card/machine.h"

void core_fault(core_run *run, uint32_t instruction, uint64_t address, const char *format, ...)
{
    if (run->state == ADVANCE_FAULT) return;
    run->state = ADVANCE_FAULT;
    run->fault.core = run->core;
    run->fault.instruction = instruction;
    run->fault.address = address;
    run->fault.of_index = false;
    snprintf(run->fault.kernel, sizeof run->fault.kernel, "%s", run->kernel->source->name);
    snprintf(run->fault.location, sizeof run->fault.location, "%s",
             run->kernel->source->location);
    va_list values;
    va_start(values, format);
    vsnprintf(run->fault.text, sizeof run->fault.text, format, values);
    va_end(values);
}

spyre_status core_fault_status(const card_fault *fault)
{
    const char *open = fault->location[0] ? " (" : "", *close = fault->location[0] ? ")" : "";
    return status_new(fault->of_index ? SPYRE_INDEX_FAULT : SPYRE_DEVICE_FAULT,
                      "core %u, kernel %s%s%s%s, instruction %u, address 0x%llx: %s", fault->core,
                      fault->kernel, open, fault->location, close, fault->instruction,
                      (unsigned long long)fault->address, fault->text);
}
