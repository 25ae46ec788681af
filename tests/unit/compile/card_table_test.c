// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include <ctype.h>

#include "card/card.h"
#include "spyre/device.h"

static double value_of(const char *name)
{
    const spyre_card_constant *constant = spyre_card_constant_named(name);
    if (!constant) fail_msg("no constant is named %s", name);
    return constant->value;
}

static void card_table__geometry(void **state)
{
    (void)state;
    assert_true(value_of("CORES") == ISA_CORES);
    assert_true(value_of("LX_BYTES") == ISA_LX_BYTES);
    assert_true(value_of("STICK_BYTES") == SPYRE_STICK_BYTES);
    assert_true(value_of("SEGMENTS") * value_of("SEGMENT_BYTES") == value_of("MEMORY_BYTES"));
    assert_true(value_of("CORELETS") * value_of("PE_ROWS") * value_of("PE_COLUMNS") == 128);
}

// 205 GB/s is what the memory could do, 150 GB/s what was measured.
static void card_table__rates_are_below_nominal(void **state)
{
    (void)state;
    assert_true(value_of("MEMORY_BANDWIDTH") < value_of("MEMORY_NOMINAL") * 1e3);
    assert_true(value_of("MATMUL_RATE") < 1536 * 1e3);
}

static void card_table__rows(void **state)
{
    const spyre_card_constant *constant;
    uint32_t count = 0;
    (void)state;
    for (; (constant = spyre_card_constant_at(count)); count++) {
        assert_true(isupper((unsigned char)constant->name[0]));
        assert_true(constant->value > 0);
        assert_true(constant->unit[0] && constant->source[0]);
        assert_ptr_equal(spyre_card_constant_named(constant->name), constant);
    }
    assert_true(count >= 20);
    assert_null(spyre_card_constant_at(count));
    assert_null(spyre_card_constant_named("cores"));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(card_table__geometry),
        cmocka_unit_test(card_table__rates_are_below_nominal),
        cmocka_unit_test(card_table__rows),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
