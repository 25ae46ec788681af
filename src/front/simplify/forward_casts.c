// SPDX-License-Identifier: Apache-2.0
//
// forward_casts: element-wise ops of several operands in float32 read 16 bits where they are,
// instead of what a cast makes of them, which is twice as long. The numbers are the same, so no bit
// changes:
//     w = dl16tofp32(x); d = sub(w, mean)      becomes      d = sub(x, mean)
//     w = dl16tofp32(c); y = where3(w, a, b)   becomes      y = where3(c, a, b)
// Only where nothing else needs the cast's result, which then goes; and not in a program for
// several sizes that are no whole sticks of 16 bits: rows of an odd number of half sticks would be
// walked otherwise than the largest size's.
#include "front/front.h"
#include "front/ir/def_use.h"

static bool computes_wide(const loop_graph *loops, const loop_op *op)
{
    opfunc_kind kind = opfunc_describe(op->op)->kind;
    bool takes = kind == OPFUNC_KIND_BINARY || kind == OPFUNC_KIND_TERNARY;
    return takes &&
           loops->buffers.items[loop_result(op)->buffer].format == SPYRE_FORMAT_IEEE_FP32;
}

// Whether everything that reads the buffer could read through the cast.
static bool all_take(const loop_graph *loops, const def_use *f, uint32_t buffer)
{
    loop_access through;
    for (uint32_t n = f->first_use[buffer]; n < f->first_use[buffer + 1]; n++) {
        const loop_op *reader = &loops->ops.items[f->uses[n].op];
        const loop_access *read = &reader->operand[f->uses[n].operand];
        if (!computes_wide(loops, reader) ||
            !def_use_through_cast(f, loops, reader, read, &through))
            return false;
    }
    return true;
}

// False unless all readers took what the cast reads.
static bool forward(loop_graph *loops, const def_use *f, const loop_op *cast)
{
    uint32_t made = loop_result(cast)->buffer;
    if (cast->op != OPFUNC_DL16TOFP32 || cast->tile_depth || loop_is_returned(loops, made) ||
        !def_use_is_written_once(f, made) || !all_take(loops, f, made))
        return false;
    for (uint32_t n = f->first_use[made]; n < f->first_use[made + 1]; n++) {
        loop_op *reader = &loops->ops.items[f->uses[n].op];
        loop_access *read = &reader->operand[f->uses[n].operand];
        (void)def_use_through_cast(f, loops, reader, read, read);
    }
    return true;
}

static bool may_end_in_half_sticks(const spyre_settings *settings)
{
    const int64_t lanes = SPYRE_STICK_BYTES / 2;
    return (settings->symbolic_size && settings->symbolic_granule % lanes != 0) ||
           (settings->second_symbolic_size && settings->second_symbolic_granule % lanes != 0);
}

spyre_status pass_forward_casts(loop_graph *loops, bool *out_changed)
{
    if (may_end_in_half_sticks(&loops->settings)) return NULL;
    return def_use_drop_ops(loops, forward, out_changed);
}
