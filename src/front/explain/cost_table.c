// SPDX-License-Identifier: Apache-2.0
#include "front/explain/cost_table.h"

#include <inttypes.h>

#include "front/cost/cost.h"
#include "front/divide/matmul_split.h"
#include "front/ir/def_use.h"
#include "front/ir/lx_slices.h"
#include "front/layout/stick_report.h"

static void print_op(const loop_graph *loops, uint32_t index, double *sum, text *out)
{
    const loop_op *op = &loops->ops.items[index];
    double published;
    division d = division_get(op);
    const char *divided = division_describe(loops->memory, op, &d);
    cost c = cost_as_planned(loops, op);
    *sum += c.us;
    text_printf(out, "%10.3f%10.3f%10.3f%10.3f", c.us, c.memory_us, c.compute_us, c.ring_us);
    if (matmul_published_cost(loops, op, &d, &published))
        text_printf(out, "%10.3f", published);
    else
        text_append(out, "         -");
    text_printf(out, "%7" PRId64 "  %-16s%-16s%s\n", division_cores(op, &d),
                divided ? divided : "-", loop_division_origin_name(op->divided_by),
                loop_op_place(loops, index));
}

static void count_reads(const loop_graph *loops, const def_use *f, uint32_t *out_reads,
                        uint32_t *out_agree)
{
    *out_reads = *out_agree = 0;
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        if (!def_use_is_written_once(f, b)) continue;
        uint32_t output = loops->ops.items[f->writer[b]].operand_count - 1;
        lx_slices written = lx_slices_of(loops, &loops->ops.items[f->writer[b]], output);
        for (uint32_t u = f->first_use[b]; u < f->first_use[b + 1]; u++) {
            lx_slices read =
                lx_slices_of(loops, &loops->ops.items[f->uses[u].op], f->uses[u].operand);
            (*out_reads)++;
            *out_agree += lx_slices_serves(&written, &read);
        }
    }
}

spyre_status cost_table_print(const loop_graph *loops, text *out)
{
    double sum = 0;
    uint32_t reads, agree;
    def_use f;
    TRY(def_use_build(loops, &f));
    text_append(out, "        us    memory   compute      ring published  cores  division        "
                     "chosen by       op\n");
    for (uint32_t i = 0; i < loops->ops.count; i++) print_op(loops, i, &sum, out);
    count_reads(loops, &f, &reads, &agree);
    text_printf(out, "%10.3f us, %u ops; %u of %u reads divide the buffer as its writer does\n",
                sum, loops->ops.count, agree, reads);
    stick_report_sums(loops, out);
    return NULL;
}
