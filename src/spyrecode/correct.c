// SPDX-License-Identifier: Apache-2.0
//
// Program correction on the host: launch arguments become the bytes that are sent to the card.
#include <string.h>

#include "spyrecode/model.h"

spyre_status spyrecode_correct(const spyrecode_command *command, const uint64_t *arguments,
                               uint32_t argument_count, uint8_t *output)
{
    if (argument_count != command->argument_count) {
        return status_new(SPYRE_INVALID_ARGUMENT, "launch of %u arguments, the code takes %u",
                          argument_count, command->argument_count);
    }
    memset(output, 0, command->byte_count);
    for (uint32_t n = 0; n < command->patch_count; n++) {
        const spyrecode_patch *patch = &command->patches[n];
        uint64_t value = patch->source == SPYRECODE_FROM_ARGUMENT ? arguments[patch->index]
                                                                   : patch->address;
        for (uint32_t byte = 0; byte < sizeof value; byte++)
            output[patch->offset + byte] = (uint8_t)(value >> 8 * byte);
    }
    return NULL;
}
