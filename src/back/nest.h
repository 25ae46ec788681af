// SPDX-License-Identifier: Apache-2.0
//
// A step in the form that the emitters work on: an iteration space of the elements that one core
// owns and, per tensor, how a byte address follows from an index. Neighbouring dims that every
// tensor walks as one are merged; cores that have fewer valid elements than others form a class of
// their own, because extents are part of the code, which all cores of a kernel share. Internal.
#ifndef BACK_NEST_H
#define BACK_NEST_H

#include "bundle/model.h"
#include "isa/isa.h"

typedef struct {
    const bundle_tensor *tensor;
    spyre_format format;                    // of an element; SENINT8 of pairs of SENINT4
    int64_t element;                        // bytes
    int64_t stick;                          // elements a stick
    uint32_t stick_dim;
    bundle_geometry geometry;
    int64_t base;                           // bytes before index 0
    int64_t stride[BUNDLE_MAX_DIMS];        // bytes of an index (of a stick, in the stick dim),
                                            // of numbers their step; 0: the tensor does not move
    uint32_t lanes;                         // 2 for the stick of the two moments, else 1
    uint16_t slot;                          // memory, numbers: parameter with the core's offset
} nest_operand;

typedef struct {
    uint32_t cores;
    int64_t size[BUNDLE_MAX_DIMS];          // elements; 0 somewhere: nothing to do
} nest_class;

enum { NEST_MOST_STICKS = 6 };              // stick lengths of one dim

// A part of the iteration space that some cores work on: where windows end inside of their input,
// one in which every window is whole; what a step with bundle_fills_masked() masks. Of dims that it
// does not cut it has everything.
typedef struct {
    uint32_t cores;
    uint32_t cuts;                          // dims, as bits
    int64_t start[BUNDLE_MAX_DIMS], size[BUNDLE_MAX_DIMS];
} nest_zone;

typedef struct {
    const bundle_step *step;
    uint32_t loops;                         // bundle loops around the step
    uint32_t dim_count;
    int64_t size[BUNDLE_MAX_DIMS];          // elements of one core
    // Where a launch chooses the size: what it is at most, and what it is a multiple of. Whatever
    // decides which code there is goes by these, so that all sizes have programs of one form.
    int64_t most[BUNDLE_MAX_DIMS];          // elsewhere the size
    int64_t unit[BUNDLE_MAX_DIMS];          // elsewhere 0
    bool reduced[BUNDLE_MAX_DIMS];
    uint32_t stick_count[BUNDLE_MAX_DIMS];  // the dim's stick lengths, longest first
    int64_t sticks[BUNDLE_MAX_DIMS][NEST_MOST_STICKS];
    uint32_t operand_count;
    nest_operand operand[BUNDLE_MAX_TENSORS];   // by tensor number
    uint32_t class_count;
    nest_class classes[BUNDLE_MAX_CORES];
    uint32_t all_cores;
    uint32_t slot_count;
    int64_t *parameters;                    // [ISA_CORES][slot_count]
} nest;

// `extra_slots` parameters are left free behind those of the tensors. `zone` is the part, or null
// for all that is not masked.
SPYRE_MUST_CHECK spyre_status nest_build(arena *memory, const bundle *b, const bundle_step *step,
                                         const nest_zone *zone, uint32_t loops,
                                         uint32_t extra_slots, nest *out_nest);

// The zones of a step with windows, which together are the whole step, or those that are masked.
typedef VEC(nest_zone) nest_zones;
SPYRE_MUST_CHECK spyre_status nest_find_zones(arena *memory, const bundle_step *step,
                                              nest_zones *out_zones);

// Makes the dim split at multiples of `stick` elements too.
void nest_add_stick(nest *n, uint32_t dim, int64_t stick);

// Bytes from the address of index 0 to that of index `i` of a dim.
int64_t nest_offset(const nest_operand *operand, uint32_t dim, int64_t i);

bool nest_class_empty(const nest *n, const nest_class *c);

// The longest stick length of a dim, 1 when no tensor has sticks there.
int64_t nest_granule(const nest *n, uint32_t dim);

// The largest tile extent of at most `largest` elements that divides every size that a launch may
// choose for the dim, an even number of times if possible.
int64_t nest_divisor(const nest *n, uint32_t dim, int64_t largest);

// Dims with more than one index, by the stride of a tensor, largest first; dims along which it does
// not move come first.
uint32_t nest_order(const nest *n, uint32_t operand, uint8_t out_dims[BUNDLE_MAX_DIMS]);

#endif
