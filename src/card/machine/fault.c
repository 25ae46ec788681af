// SPDX-License-Identifier: Apache-2.0
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
