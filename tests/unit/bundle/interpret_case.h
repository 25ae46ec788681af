// SPDX-License-Identifier: Apache-2.0
//
// Memory for bundles in tests of the interpreter, element by element.
#ifndef TESTS_INTERPRET_CASE_H
#define TESTS_INTERPRET_CASE_H

#include "unit/bundle/golden.h"

enum { MOST_BYTES = 1 << 16 };

typedef struct {
    arena *memory;
    uint8_t *lx;
    bundle_buffer buffers[8];
} machine;

static inline machine start_machine(void)
{
    machine m = {.memory = arena_create()};
    m.lx = arena_alloc(m.memory, (size_t)BUNDLE_MAX_CORES * BUNDLE_LX_BYTES);
    assert_non_null(m.lx);
    for (uint32_t i = 0; i < 8; i++) {
        m.buffers[i] = (bundle_buffer){arena_alloc(m.memory, MOST_BYTES), MOST_BYTES};
        assert_non_null(m.buffers[i].bytes);
    }
    return m;
}

// Byte offset of (row, column) in a tensor of order "rows columns" with sticks along columns.
static inline int64_t at(int64_t rows, int64_t row, int64_t column, spyre_format format)
{
    int64_t lanes = spyre_format_elements_per_stick(format);
    return (column / lanes * rows + row) * SPYRE_STICK_BYTES +
           column % lanes * spyre_format_bytes(format);
}

static inline void set(machine *m, uint32_t buffer, int64_t offset, spyre_format format,
                       double value)
{
    element_store(m->buffers[buffer].bytes + offset, format, value);
}

static inline double get(const machine *m, uint32_t buffer, int64_t offset, spyre_format format)
{
    return element_load(m->buffers[buffer].bytes + offset, format);
}

static inline float random_float(uint64_t *state)
{
    return (float)(int64_t)(check_random(state) >> 40) / 65536.0f - 128.0f;
}

#endif
