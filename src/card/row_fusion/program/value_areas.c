// SPDX-License-Identifier: Apache-2.0
//
// The areas that keep values from step to step of a block, one for all values that are not kept at
// the same time, and those of lines.
#include "card/row_fusion/program/program_builder.h"

// Lines come behind the areas of values: one each.
static void choose_lines(row_fusion *c)
{
    for (uint32_t n = 0; n < c->steps.count; n++)
        if (c->steps.items[n].op == VECTOR_LINE_Y) c->steps.items[n].area = c->lines++;
}

// An area is free again from the step on that takes its value last.
static void choose_areas(rows_builder *b)
{
    uint32_t busy_until[2][ROWS_MOST_STEPS] = {{0}}, area[ROWS_MOST_STEPS] = {0};
    for (uint32_t v = 0; v < b->value_count; v++) {
        const rows_value *value = &b->values[v];
        uint32_t *busy = busy_until[value->passes];
        uint32_t *count = value->passes ? &b->c->passing : &b->c->kept;
        if (!value->kept) continue;
        while (busy[area[v]] > value->made) area[v]++;
        busy[area[v]] = value->last;
        if (area[v] >= *count) *count = area[v] + 1;
    }
    for (uint32_t n = 0; n < b->c->steps.count; n++) {
        rows_step *s = &b->c->steps.items[n];
        if (!rows_takes_kept(s->op)) continue;
        s->area = area[s->value];
        s->passes = b->values[s->value].passes;
    }
}

void rows_choose_areas(rows_builder *b)
{
    choose_areas(b);
    choose_lines(b->c);
}
