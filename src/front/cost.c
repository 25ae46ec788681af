// SPDX-License-Identifier: Apache-2.0
#include "front/cost.h"

#include <math.h>

#include "isa/constants.h"

double cost_operand_bytes(const loop_graph *loops, const loop_op *op, uint32_t k, uint8_t stick)
{
    const loop_access *access = &op->operand[k];
    double sticks = 1;
    int64_t lanes = loop_lanes(&loops->buffers.items[access->buffer]);
    for (uint32_t v = 0; v < op->var_count; v++) {
        bool by_index = loop_is_table(op, access) && op->operand[0].stride[v]; // a row an index
        if (v == stick)
            sticks *= (double)((op->extent[v] + lanes - 1) / lanes);
        else if (access->stride[v] || by_index)
            sticks *= (double)op->extent[v];
    }
    return sticks * SPYRE_STICK_BYTES;
}

static double operand_bytes(const loop_graph *loops, const loop_op *op, uint32_t k)
{
    loop_location place;
    if (loop_locate(loops, op, &op->operand[k], &place)) return 0;
    return cost_operand_bytes(loops, op, k, place.stick_var);
}

cost_basis cost_basis_of(const loop_graph *loops, const loop_op *op)
{
    cost_basis basis = {.sizes = division_sizes_of(loops, op), .points = 1};
    for (uint32_t v = 0; v < op->var_count; v++) basis.points *= (double)basis.sizes.size[v];
    for (uint32_t k = 0; k < op->operand_count; k++) basis.bytes[k] = operand_bytes(loops, op, k);
    return basis;
}

// Rows that a core of a matmul works on: of variables along which A moves and B does not.
static double rows_a_core(const loop_op *op, const division *d)
{
    double rows = 1;
    for (uint32_t v = 0; v < op->var_count; v++)
        if (op->operand[0].stride[v] && !op->operand[1].stride[v])
            rows *= (double)op->extent[v] / d->split[v];
    return rows;
}

double cost_vector_us(double bytes, double cores)
{
    return bytes / SPYRE_STICK_BYTES / (cores * VECTOR_STICKS * CLOCK);
}

static double compute_of(const loop_op *op, const cost_basis *basis, const division *d)
{
    double cores = (double)division_cores(op, d), largest = 0;
    if (opfunc_describe(op->op)->kind == OPFUNC_KIND_MATMUL) {
        double fill = fmin(1, rows_a_core(op, d) / MATMUL_FULL_ROWS);
        return basis->points / (cores * MATMUL_RATE * pow(fill, MATMUL_FILL_POWER));
    }
    for (uint32_t k = 0; k < op->operand_count; k++) largest = fmax(largest, basis->bytes[k]);
    return cost_vector_us(largest, cores);
}

// us per byte of the smaller direction.
static double turn_of(const loop_op *op)
{
    if (op->op == OPFUNC_RESTICKIFY) return RESTICKIFY_TURN;
    if (opfunc_describe(op->op)->kind == OPFUNC_KIND_MATMUL) return MEMORY_TURNAROUND;
    for (uint32_t k = 0; k + 1 < op->operand_count; k++)
        for (uint32_t v = 0; v < op->var_count; v++)
            if (!op->operand[k].stride[v]) return BROADCAST_TURN;
    return MEMORY_TURNAROUND;
}

double cost_memory_us(const loop_op *op, double read_bytes, double written_bytes)
{
    return (read_bytes + written_bytes) / MEMORY_BANDWIDTH +
           fmin(read_bytes, written_bytes) * turn_of(op);
}

// Partial results pass along a chain of cores, one hop after the other.
static double ring_of(const loop_op *op, const division_sizes *sizes, const division *d)
{
    double partial = sizeof(float);
    int32_t chain = 1;
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (loop_var_is_reduced(op, v))
            chain *= d->split[v];
        else
            partial *= (double)sizes->size[v] / d->split[v];
    }
    return (chain - 1) * partial / (GEOMETRY_RING_WIDTH * CLOCK);
}

cost cost_of(const loop_op *op, const cost_basis *basis, const division *d, uint32_t resident)
{
    cost c = {0};
    for (uint32_t k = 0; k < op->operand_count; k++) {
        if (resident >> k & 1u) continue;
        if (k + 1 == op->operand_count)
            c.written_bytes = basis->bytes[k];
        else
            c.read_bytes += basis->bytes[k];
    }
    c.memory_us = cost_memory_us(op, c.read_bytes, c.written_bytes);
    c.compute_us = compute_of(op, basis, d);
    c.ring_us = ring_of(op, &basis->sizes, d);
    c.us = fmax(c.memory_us, c.compute_us + c.ring_us);
    return c;
}

uint32_t cost_resident(const loop_graph *loops, const loop_op *op)
{
    uint32_t resident = 0;
    for (uint32_t k = 0; k < op->operand_count; k++)
        if (loops->buffers.items[op->operand[k].buffer].in_lx) resident |= 1u << k;
    return resident;
}

cost cost_as_planned(const loop_graph *loops, const loop_op *op)
{
    cost_basis basis = cost_basis_of(loops, op);
    division d = division_get(op);
    return cost_of(op, &basis, &d, cost_resident(loops, op));
}

double cost_of_graph(const loop_graph *loops)
{
    double us = 0;
    for (uint32_t i = 0; i < loops->ops.count; i++)
        us += cost_as_planned(loops, &loops->ops.items[i]).us;
    return us;
}

bool cost_less(const cost *a, const cost *b)
{
    if (a->us != b->us) return a->us < b->us;
    return a->compute_us + a->ring_us < b->compute_us + b->ring_us;
}
