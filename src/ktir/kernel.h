// SPDX-License-Identifier: Apache-2.0
//
// An open module, and host arrays as the card's memory.
#ifndef KTIR_KERNEL_H
#define KTIR_KERNEL_H

#include "ktir/parameters.h"

struct spyre_ktir {
    arena *memory;
    ktir_module *m;
    ktir_parameters *parameters;        // [functions]
};

// The function of the options and the grid of the call; errors name what does not exist.
SPYRE_MUST_CHECK spyre_status kernel_function(const spyre_ktir *kernel,
                                              const spyre_ktir_options *options,
                                              const ktir_function **out_function, int64_t *out_grid,
                                              uint32_t *out_grid_rank);

// Bytes on the card of a host array.
SPYRE_MUST_CHECK spyre_status kernel_card_bytes(const ktir_parameter *p,
                                                const spyre_ktir_value *value, int64_t *out_bytes);

// Converts a whole host array to the card's format and back, on several threads.
SPYRE_MUST_CHECK spyre_status kernel_to_card(const ktir_parameter *p,
                                             const spyre_ktir_value *value, void *card);
SPYRE_MUST_CHECK spyre_status kernel_to_host(const ktir_parameter *p, const spyre_ktir_value *value,
                                             const void *card);

#endif
