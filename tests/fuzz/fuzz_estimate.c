// SPDX-License-Identifier: Apache-2.0
//
// Configurations of models: what is accepted obeys the rules that estimates count on.
#include "estimate/model.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    json_node config;
    estimate_model m;
    spyre_status status = json_read_buffer("config.json", (const char *)bytes, count, &config);
    if (!fuzz_ok(status)) return 0;
    status = model_read(&config, &m);
    if (fuzz_ok(status)) {
        FUZZ_HOLDS(m.layers > 0 && m.hidden > 0 && m.heads > 0 && m.intermediate > 0);
        FUZZ_HOLDS(m.kv_heads > 0 && m.heads % m.kv_heads == 0);
        FUZZ_HOLDS(m.head_dim > 0 && m.head_dim % 2 == 0 && m.vocabulary > 0);
        FUZZ_HOLDS(model_layer_weights(&m) > 0 && model_kv_heads(&m, 4096) == 1);
    }
    json_close(&config);
    return 0;
}
