// SPDX-License-Identifier: Apache-2.0
//
// What memory holds: for each 2 bytes of LX and of temporary arguments where else the same bits
// are. Copies are executed on these places instead of numbers, so whatever a chain of copies does
// is known element by element:
//
//     load lx+0 <- arg0+2         lx+0, lx+2, .. hold arg0+2, arg0+4, ..
//     identity lx+512 <- lx+2     lx+512, .. hold arg0+4, ..
//
// What is computed is found where it was written. Of cores that run the same kernels; they differ
// in where in memory their elements begin.
#ifndef CARD_CONTENTS_H
#define CARD_CONTENTS_H

#include "card/footprint/range.h"
#include "card/plan.h"

// Places are numbers: those of a source follow each other, and no two sources share one.
enum { CONTENTS_UNIT_BYTES = 2, CONTENTS_MOST_MAPS = 4 };
#define CONTENTS_MOVED (1u << 31)           // copied from where it was followed

typedef struct {
    isa_space space;                        // LX or MEMORY
    uint16_t arg;
    byte_range bytes;                       // that it can name; in memory as the first core counts
    byte_range used;                        // of these, on all cores, what is held elsewhere
    uint32_t begin;                         // place of bytes.low
    int64_t shift[ISA_CORES];               // MEMORY: bytes from the first core's element to c's
    uint32_t behind;                        // order of the first kernel behind what wrote it
    bool gone;                              // other bits may lie there now
} content_source;

// A number for each unit of LX, or of an argument.
typedef struct {
    isa_space space;
    uint16_t arg;
    byte_range bytes;                       // whole units
    uint32_t *unit;
} content_map;

typedef struct {
    arena *memory;
    uint32_t cores;                         // that are followed
    const byte_range *arguments;            // bytes of each that the program touches
    uint32_t map_count;
    content_map map[CONTENTS_MOST_MAPS];    // places of what is followed; map 0 is LX
    VEC(content_source) sources;            // by begin
    uint32_t next;                          // place of the next source
    uint32_t behind;                        // order of the first kernel behind what is followed
    bool full;                              // there is no room for more
} contents;

// A map of zeros for bytes that units are rounded to.
SPYRE_MUST_CHECK spyre_status content_map_make(arena *memory, isa_space space, uint16_t arg,
                                               byte_range bytes, content_map *out);

// The map of a place, or null.
const content_map *content_map_of(const content_map *maps, uint32_t count, isa_space space,
                                  uint16_t arg);

static inline uint32_t *content_unit(const content_map *map, int64_t byte)
{
    return map->unit + (byte - map->bytes.low) / CONTENTS_UNIT_BYTES;
}

// So many bytes of LX are followed, and `temporary` arguments, bits of those; each unit is found
// where it lies.
SPYRE_MUST_CHECK spyre_status contents_begin(arena *memory, uint32_t cores, uint32_t lx_bytes,
                                             const byte_range *arguments, uint32_t temporary,
                                             contents *out);

// Something is computed, or may be, in a range of LX or of an argument.
SPYRE_MUST_CHECK spyre_status contents_replace(contents *c, isa_space space, uint16_t arg,
                                               byte_range range);

// Nothing is known any more.
SPYRE_MUST_CHECK spyre_status contents_forget(contents *c);

// Where an operand's element 0 lies, as the first core counts.
int64_t contents_first(const contents *c, const isa_kernel *kernel, const isa_operand *o);

// True for instructions that copy bits in whole units.
bool contents_is_copy(const isa_instruction *i);

// Such a tile, without loops around it.
SPYRE_MUST_CHECK spyre_status contents_copy(contents *c, const isa_kernel *kernel,
                                            const plan_tile *tile);

// The source of a place; null where nothing may be read there any more.
const content_source *contents_source(const contents *c, uint32_t place);

#endif
