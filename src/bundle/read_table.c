// SPDX-License-Identifier: Apache-2.0
//
// Which dim of a table (the value tensor of a gather or scatter) its index moves, and where that
// lies. torch-spyre says so in several ways, which the rest of a step tells apart:
//
// - maxDimSizes_ is in the order of primaryDsInfo_ (June 2026) or of the node (August). The dim of
//   size 1 is one that the index has.
// - In August the indexed dim of a table lies outside of all others, and stands behind them. One of
//   a single index stands in front of them, but lies there, too.
// - An index of several dims has its table named by all of them, each of size 1 and side by side.
//   Rows go along the first one, and the others do not move.
#include <string.h>

#include "bundle/step_facts.h"
#include "bundle/read.h"

static bool has_dim(const bundle_tensor *t, uint32_t d)
{
    for (uint32_t i = 0; i < t->order_count; i++)
        if (t->order[i] == d) return t->scale[d] > 0;
    return false;
}

// Whether `sizes` name a dim, and only such as the index has.
static bool fits_index(const bundle_tensor *table, const int32_t *sizes, const bundle_tensor *index)
{
    bool found = false;
    for (uint32_t i = 0; i < table->order_count; i++) {
        if (sizes[table->order[i]] != 1) continue;
        if (!has_dim(index, table->order[i])) return false;
        found = true;
    }
    return found;
}

static void order_sizes(bundle_tensor *table, const bundle_tensor *index)
{
    int32_t sizes[BUNDLE_MAX_DIMS];
    if (table->order_count != table->label_order_count) return;
    memcpy(sizes, table->max_size, sizeof sizes);
    for (uint32_t i = 0; i < table->order_count; i++)
        sizes[table->order[i]] = table->max_size[table->label_order[i]];
    if (fits_index(table, table->max_size, index) || !fits_index(table, sizes, index)) return;
    memcpy(table->max_size, sizes, sizeof sizes);
}

static void move_outside(const bundle_step *step, bundle_tensor *table)
{
    uint8_t first = table->order[0];
    if (table->indexed_extent || table->order_count < 2 || table->max_size[first] != 1 ||
        step->size[first] != 1)
        return;
    memmove(table->order, table->order + 1, table->order_count - 1);
    table->order[table->order_count - 1] = first;
}

static void join_dims(bundle_tensor *table, const bundle_tensor *index)
{
    uint32_t first = 0, last;
    while (first < table->order_count && table->max_size[table->order[first]] != 1) first++;
    for (last = first; last < table->order_count; last++) {
        uint32_t d = table->order[last];
        if (table->max_size[d] != 1 || index->scale[d] <= 0) break;
    }
    for (uint32_t i = last; i < table->order_count; i++)
        if (table->max_size[table->order[i]] == 1) return;
    for (uint32_t i = first + 1; i < last; i++) {
        table->scale[table->order[i]] = -1;
        table->max_size[table->order[i]] = -1;
    }
}

void read_table(bundle_step *step)
{
    bundle_tensor *table = &step->tensors[bundle_value_tensor(step)];
    const bundle_tensor *index = &step->tensors[step->indices[0]];
    if (table->index_kind != BUNDLE_INDEX_VALUE) return;
    order_sizes(table, index);
    move_outside(step, table);
    join_dims(table, index);
}
