// SPDX-License-Identifier: Apache-2.0
//
// The dim of a table that an index moves, and where it lies, as torch-spyre's bundles say it.
#include "unit/bundle/golden.h"

#include "bundle/read.h"

// A scatter of rows "mb" into a table of `order` that the file's maxDimSizes_ name by the order of
// primaryDsInfo_ `label_order`; `named` is the place there that has size 1.
static bundle_step scatter(arena *memory, const char *order, const char *label_order,
                           uint32_t named, int64_t rows)
{
    bundle_step s = make_step(memory, OPFUNC_IDENTITY,
                              DIMS({"mb", rows, 1}, {"x", 8, 1}, {"out", 128, 1}));
    bundle_tensor *index =
        make_tensor(&s, "KERNEL_IDX", SPYRE_FORMAT_SENUINT32, "mb", "mb", "");
    index->index_kind = BUNDLE_INDEX_INDEX;
    (void)make_tensor(&s, "OUTPUT", DL16, label_order, "out", "");
    bundle_tensor *labelled = make_tensor(&s, "OUTPUT", DL16, label_order, "out", "");
    uint8_t labels[BUNDLE_MAX_DIMS];
    memcpy(labels, labelled->label_order, sizeof labels);
    s.tensor_count--;
    *labelled = (bundle_tensor){.arg = 0};
    bundle_tensor *table = make_tensor(&s, "OUTPUT", DL16, order, "out", "");
    memcpy(table->label_order, labels, sizeof labels);
    table->index_kind = BUNDLE_INDEX_VALUE;
    table->max_size[labels[named]] = 1;
    s.inputs[s.input_count++] = 1;
    s.indices[s.index_count++] = 0;
    s.output = 2;
    return s;
}

static void assert_order(const bundle_step *s, uint8_t a, uint8_t b, uint8_t c)
{
    const bundle_tensor *table = &s->tensors[2];
    assert_int_equal(table->order[0], a);
    assert_int_equal(table->order[1], b);
    assert_int_equal(table->order[2], c);
    assert_int_equal(bundle_indexed_dim(s, 2), 0);
}

static void read_table__sizes_in_either_order(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle_step s = scatter(memory, "out x mb", "mb out x", 0, 3);      // of primaryDsInfo_
    read_table(&s);
    assert_order(&s, 2, 1, 0);
    s = scatter(memory, "out x mb", "mb out x", 2, 3);                  // of the node
    assert_int_equal(bundle_indexed_dim(&s, 2), 1);
    read_table(&s);
    assert_order(&s, 2, 1, 0);
    arena_destroy(memory);
}

static void read_table__a_single_index_lies_outside(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle_step s = scatter(memory, "mb out x", "mb out x", 0, 1);
    read_table(&s);
    assert_order(&s, 2, 1, 0);
    s = scatter(memory, "mb out x", "mb out x", 0, 3);                  // June: where it stands
    read_table(&s);
    assert_order(&s, 0, 2, 1);
    s = scatter(memory, "mb out x", "mb out x", 0, 1);
    s.tensors[2].indexed_extent = 16;                                   // of this stack
    read_table(&s);
    assert_order(&s, 0, 2, 1);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_table__sizes_in_either_order),
        cmocka_unit_test(read_table__a_single_index_lies_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
