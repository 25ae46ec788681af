// SPDX-License-Identifier: Apache-2.0
//
// Views and access tiles on the way to instructions: strides and an offset of every core.
// Private to lower_view.c, lower_access.c, lower_coordinate_set.c, lower_irregular_tiles.c,
// lower_gather_scatter.c and lower_memory.c.
#ifndef KTIR_LOWER_ACCESS_H
#define KTIR_LOWER_ACCESS_H

#include "ktir/lower/lowering.h"

// Numbers of addresses and subscripts stay below.
#define MOST_NUMBER ((int64_t)1 << 40)

// --- Views (lower_view.c)

typedef struct {
    const ktir_op *op;
    uint16_t argument;                  // of the program
    bool in_lx;                         // of core `owner`, or of each core its own
    uint32_t owner;
    lowered_index first;                // bytes from the argument's begin, or LX's
    int64_t element;
    uint32_t rank;
    int64_t size[KTIR_MOST_RANK], stride[KTIR_MOST_RANK];       // elements
    int64_t origin[KTIR_MOST_RANK];     // coordinates count from here
    int64_t least[KTIR_MOST_RANK], most[KTIR_MOST_RANK];        // coordinates that it has
    const ktir_set *set;                // or null: of these, those in the set
    int64_t symbols[KTIR_MOST_RANK];    // of the set
} view;

#define OWN_LX UINT32_MAX
enum { MOST_PARTS = 32 };
typedef struct {
    bool distributed;                   // what lies with another core comes and goes in messages
    uint32_t count;
    view part[MOST_PARTS];
} views;

// Numbers of addresses and subscripts that sums and products of them are safe with.
bool view_is_within(const lowering *w, const lowered_index *x, int64_t bound);

// The view that operand n is; of a distributed one, when its parts do not join, the first `count`.
SPYRE_MUST_CHECK spyre_status view_find_parts(lowering *w, const ktir_op *op, uint32_t n,
                                              views *out);

// The same where it must be one.
SPYRE_MUST_CHECK spyre_status view_find(lowering *w, const ktir_op *op, uint32_t n, view *v);

// --- Access tiles (lower_access.c)

typedef struct {
    const ktir_op *op;                  // that constructs the tile
    isa_opcode opcode;                  // LOAD or GATHER, STORE or SCATTER: what moves it
    view v;
    bool distributed;
    uint32_t rank;
    uint32_t permutation[KTIR_MOST_RANK];
    int64_t from[KTIR_MOST_RANK];       // of its points those from here on, by dim of the tile
    const int64_t *box;                 // or null: of a set that is no box, a box of its points
                                        // from here on, by dim of the set
    int64_t least[KTIR_MOST_RANK], extent[KTIR_MOST_RANK];      // by dim of the tile
    lowered_index address;              // of its first point, in bytes
    int64_t stride[KTIR_MOST_RANK];     // bytes, by dim of the tile
} access;

// The order of the tile's dims.
void access_order(const lowering *w, const lowered_tensor *t, access *a);

// The set of the tile when it is no box, else null.
const ktir_set *access_set(const lowering *w, const access *a);

// The points of the tile that `t` takes or gives.
SPYRE_MUST_CHECK spyre_status access_points(lowering *w, const lowered_tensor *t, access *a);

// A subscript of the tile as a linear index; factors of its own variables in *factor.
SPYRE_MUST_CHECK spyre_status access_subscript(lowering *w, const access *a, const ktir_expr *e,
                                               uint32_t own, lowered_index *out, int64_t *factors);

// A fault when coordinates low to high beyond x leave dim d of the view.
SPYRE_MUST_CHECK spyre_status access_check_bounds(lowering *w, const access *a,
                                                  const lowered_index *x, uint32_t d, int64_t low,
                                                  int64_t high);

// Points of a tile: so far from coordinate `base` of each dim of the view, in steps.
typedef struct {
    lowered_index base[KTIR_MOST_RANK];
    int64_t low[KTIR_MOST_RANK], high[KTIR_MOST_RANK], step[KTIR_MOST_RANK];
} access_box;

// A fault when some of them are not in the set of the view's coordinates (lower_coordinate_set.c).
SPYRE_MUST_CHECK spyre_status access_check_set(lowering *w, const access *a, const access_box *box);

// Moves the first point by x, in steps of `bytes`.
void access_advance(access *a, const lowered_index *x, int64_t bytes, int64_t shift);

// Where the tile begins in dim d.
SPYRE_MUST_CHECK spyre_status access_base(lowering *w, const access *a, uint32_t d,
                                          lowered_index *out);

// Strides and address of a tile without indices.
SPYRE_MUST_CHECK spyre_status access_direct(lowering *w, access *a);

// The operand of an instruction in memory.
SPYRE_MUST_CHECK spyre_status access_operand(lowering *w, const ktir_op *op, const access *a,
                                             spyre_format format, isa_operand *out);

static inline bool access_loads(const access *a)
{
    return a->opcode == ISA_LOAD || a->opcode == ISA_GATHER;
}

// One LOAD or STORE between the tile and `t` in LX.
SPYRE_MUST_CHECK spyre_status access_move(lowering *w, const ktir_op *op, const access *a,
                                          const lowered_tensor *t);

// --- Sets that are no boxes (lower_irregular_tiles.c)

// LOADs or STOREs between the points of the set and `t`: a block of points each.
SPYRE_MUST_CHECK spyre_status access_move_points(lowering *w, const ktir_op *op, access *a,
                                                 const lowered_tensor *t);

// The same of a tile over several parts of memory that begins at `base`, the same on all active
// cores: those of its points that lie in the part a->v; *out_count of them.
SPYRE_MUST_CHECK spyre_status access_move_points_in_part(lowering *w, const ktir_op *op, access *a,
                                                         const int64_t *base,
                                                         const lowered_tensor *t,
                                                         int64_t *out_count);

// --- Rows that indices choose (lower_gather_scatter.c)

// GATHERs into `t`, or SCATTERs of it, of a box of points: dims of the view are looked up in views
// of indices.
SPYRE_MUST_CHECK spyre_status access_move_box(lowering *w, const ktir_op *op, const access *a,
                                              const lowered_tensor *t);

// --- LX (lower_place.c)

// Where a view at a constant address in LX lies.
SPYRE_MUST_CHECK spyre_status place_of_view(lowering *w, const ktir_op *op, int64_t space,
                                            view *v);

// `t` from or to the points of the access, whose view is in LX.
SPYRE_MUST_CHECK spyre_status place_move(lowering *w, const ktir_op *op, const access *a,
                                         const lowered_tensor *t);

#endif
