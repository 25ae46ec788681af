// SPDX-License-Identifier: Apache-2.0
//
// RANK whose candidates' values are ordered as integers first. Into a few ranks the candidates go
// one by one, in runs along the last dim: a run either enters one ranking, which most blocks of
// candidates are found to be behind at once, or each of its elements one of its own. Where the
// candidates of a ranking are nearer to each other than those of two, runs are along them. Into
// many ranks they are merged: those of a ranking that may enter are sorted, by the digits of their
// values, which leaves equal ones in the order of their positions, or where they are few by how
// many are greater, and then take turns with the entries that are there.
#include <stdlib.h>

#include "base/target_clones.h"
#include "card/tile/runs.h"
#include "isa/dims.h"
#include "tensor/ranking.h"

enum { FEW_RANKS = 24 };

typedef struct {
    const isa_instruction *i;
    uint32_t ranks, last; // entries of a ranking; the dim of the runs
    int64_t apart;        // bytes from an entry to the next
} ranking;

BASE_CLONES
static void order_floats(const float *values, int32_t turn, size_t count, int32_t *out)
{
    for (size_t n = 0; n < count; n++) {
        uint32_t bits = float_bits(values[n]), magnitude = bits & RANKING_MAGNITUDE;
        int32_t ordered = (int32_t)(bits >> 31 ? 0U - magnitude : magnitude);
        out[n] = (magnitude > 0x7F800000U ? RANKING_NAN : ordered) ^ turn;
    }
}

// Value halves of elements `stride` bytes apart.
static void load_values(const ranking *r, const uint8_t *from, int64_t stride, size_t count,
                        int32_t *out)
{
    const isa_operand *operand = &r->i->operand[1];
    int32_t turn = ranking_turned(r->i->op, 0); // 0, or all bits
    if (operand->format == SPYRE_FORMAT_IEEE_INT32) {
        for (size_t n = 0; n < count; n++) memcpy(&out[n], from + (int64_t)n * stride, sizeof *out);
        for (size_t n = 0; n < count; n++) out[n] ^= turn;
        return;
    }
    float values[LANES_CHUNK];
    lanes_load_f32(values, from, stride, operand->format, count);
    order_floats(values, turn, count, out);
}

// --- A few ranks

enum { BLOCK = 64 };

BASE_CLONES
static bool reaches(const int32_t *values, int32_t least)
{
    uint32_t found = 0;
    for (size_t n = 0; n < BLOCK; n++) found |= values[n] >= least;
    return found;
}

// The first from `n` on behind blocks that do not reach the value of the last entry.
static size_t skip_blocks(const int32_t *values, size_t n, size_t count, int32_t least)
{
    while (n + BLOCK <= count && !reaches(values + n, least)) n += BLOCK;
    return n;
}

static void enter_one(const ranking *r, uint8_t *entries, const int32_t *values, size_t count,
                      uint32_t position)
{
    const uint8_t *last = entries + (int64_t)(r->ranks - 1) * r->apart;
    int64_t least = ranking_at(last);
    for (size_t n = 0; n < count; n++) {
        if (n % BLOCK == 0) n = skip_blocks(values, n, count, ranking_value(least));
        if (n == count) return;
        if (values[n] < ranking_value(least)) continue;
        int64_t entry = ranking_entry(values[n], position + (uint32_t)n);
        if (entry <= least) continue;
        ranking_insert(entries, r->apart, r->ranks, entry);
        least = ranking_at(last);
    }
}

// Rankings of one entry, which lie side by side.
BASE_CLONES
static void enter_greatest(int64_t *entries, const int32_t *values, size_t count, uint32_t position)
{
    for (size_t n = 0; n < count; n++) {
        const int64_t entry = ranking_entry(values[n], position);
        entries[n] = entry > entries[n] ? entry : entries[n];
    }
}

static void enter_each(const ranking *r, uint8_t *entries, const int32_t *values, size_t count,
                       uint32_t position)
{
    int64_t stride = r->i->operand[0].stride[r->last], tail = (int64_t)(r->ranks - 1) * r->apart;
    const bool aligned = (uintptr_t)entries % sizeof(int64_t) == 0;
    if (r->ranks == 1 && stride == sizeof(int64_t) && aligned) {
        enter_greatest((int64_t *)(void *)entries, values, count, position);
        return;
    }
    for (size_t n = 0; n < count; n++) {
        uint8_t *first = entries + (int64_t)n * stride;
        int64_t entry = ranking_entry(values[n], position);
        if (entry > ranking_at(first + tail)) ranking_insert(first, r->apart, r->ranks, entry);
    }
}

static void enter_run(const ranking *r, uint8_t *entries, const uint8_t *from, uint32_t position)
{
    bool one = r->i->operand[0].stride[r->last] == 0;
    int64_t length = r->i->extent[r->last], stride = r->i->operand[1].stride[r->last];
    for (int64_t done = 0; done < length; done += LANES_CHUNK) {
        int32_t values[LANES_CHUNK];
        size_t count = chunk_length(length - done);
        load_values(r, from + done * stride, stride, count, values);
        uint8_t *to = entries + done * r->i->operand[0].stride[r->last];
        if (one) enter_one(r, to, values, count, position + (uint32_t)done);
        else enter_each(r, to, values, count, position);
    }
}

// The dims around a run, those whose candidates lie nearest to each other last, and how far the
// number of a candidate is from the one before it in each: 0 of rankings.
typedef struct {
    uint32_t count, dim[ISA_MAX_DIMS], apart[ISA_MAX_DIMS];
} runs_around;

static runs_around find_runs(const ranking *r)
{
    const isa_instruction *i = r->i;
    runs_around around = {0};
    uint32_t candidates = i->operand[0].stride[r->last] == 0 ? i->extent[r->last] : 1;
    for (uint32_t d = r->last - 1; d > 0; d--) {
        uint32_t at = around.count++;
        const int64_t *stride = i->operand[1].stride;
        for (; at > 0 && llabs(stride[around.dim[at - 1]]) < llabs(stride[d]); at--) {
            around.dim[at] = around.dim[at - 1];
            around.apart[at] = around.apart[at - 1];
        }
        const bool counts = i->operand[0].stride[d] == 0;
        around.dim[at] = d;
        around.apart[at] = counts ? candidates : 0;
        if (counts) candidates *= i->extent[d];
    }
    return around;
}

// Runs of one ranking lie far apart where sticks of a row do: the host fetches those to come.
static void fetch_ahead(const ranking *r, const uint8_t *from, int64_t to_next)
{
    enum { RUNS_AHEAD = 8, LINE = 64, MOST_LINES = 4 };
    const int64_t bytes = r->i->extent[r->last] * r->i->operand[1].stride[r->last];
    const uint8_t *run = from + RUNS_AHEAD * to_next;
    for (int64_t at = 0; at < bytes && at < MOST_LINES * LINE; at += LINE)
        __builtin_prefetch(run + at);
}

// Entries come to the same whatever the order of runs: no two of a ranking are equal.
static void enter_runs(const ranking *r, uint8_t *const *address, uint32_t first)
{
    const isa_instruction *i = r->i;
    const runs_around around = find_runs(r);
    uint32_t index[ISA_MAX_DIMS] = {0};
    for (;;) {
        uint32_t number = first, n = around.count;
        uint8_t *entries = address[0], *from = address[1];
        for (uint32_t at = 0; at < around.count; at++) {
            entries += index[at] * i->operand[0].stride[around.dim[at]];
            from += index[at] * i->operand[1].stride[around.dim[at]];
            number += index[at] * around.apart[at];
        }
        if (n > 0) fetch_ahead(r, from, i->operand[1].stride[around.dim[n - 1]]);
        enter_run(r, entries, from, number);
        while (n > 0 && ++index[n - 1] == i->extent[around.dim[n - 1]]) index[--n] = 0;
        if (n == 0) return;
    }
}

// --- Many ranks

typedef struct {
    const ranking *r;
    uint32_t dims[2][ISA_MAX_DIMS], count[2]; // of rankings, of candidates
    uint32_t candidates, first;
    int64_t *sorted, *spare, *merged; // entries: two of the candidates, one of a ranking
    int32_t *values;                  // of the candidates
} merger;

// Steps through dims as digits, the last one fastest; false after the last index.
static bool next_index(const isa_instruction *i, const uint32_t *dims, uint32_t count,
                       uint32_t *index)
{
    for (uint32_t n = count; n-- > 0;) {
        if (++index[n] < i->extent[dims[n]]) return true;
        index[n] = 0;
    }
    return false;
}

static int64_t offset_of(const isa_operand *operand, const uint32_t *dims, uint32_t count,
                         const uint32_t *index)
{
    int64_t offset = 0;
    for (uint32_t n = 0; n < count; n++) offset += index[n] * operand->stride[dims[n]];
    return offset;
}

// Value halves of all candidates of a ranking, by position.
static void load_candidates(const merger *m, const uint8_t *from)
{
    const isa_instruction *i = m->r->i;
    uint32_t outer = m->count[1] - 1, fast = m->dims[1][outer], index[ISA_MAX_DIMS] = {0};
    int64_t stride = i->operand[1].stride[fast];
    int32_t *out = m->values;
    do {
        const uint8_t *run = from + offset_of(&i->operand[1], m->dims[1], outer, index);
        for (int64_t done = 0; done < i->extent[fast]; done += LANES_CHUNK) {
            size_t count = chunk_length(i->extent[fast] - done);
            load_values(m->r, run + done * stride, stride, count, out);
            out += count;
        }
    } while (next_index(i, m->dims[1], outer, index));
}

BASE_CLONES
static uint32_t count_between(const int32_t *values, uint32_t count, int32_t least, int32_t end)
{
    uint32_t found = 0;
    for (uint32_t n = 0; n < count; n++) found += values[n] >= least && values[n] < end;
    return found;
}

// A value that enough candidates below `end` reach to fill the ranking, and not many more where few
// have the same.
static int32_t find_least(const merger *m, int32_t end)
{
    const uint32_t ranks = m->r->ranks;
    int64_t low = INT32_MIN, high = end;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        const uint32_t count = count_between(m->values, m->candidates, (int32_t)middle, end);
        if (count < ranks) high = middle;
        else low = middle;
        if (count >= ranks && count <= ranks + ranks / 2) break;
    }
    return (int32_t)low;
}

// Takes the candidates above the one entry and no further up than the other; returns their number.
static uint32_t collect(const merger *m, int64_t above, int64_t most)
{
    enum { MANY_TIMES = 4 };
    const bool many = m->candidates / MANY_TIMES > m->r->ranks;
    const int64_t least = many ? ranking_least(find_least(m, ranking_value(most))) : INT64_MIN;
    const int64_t behind = least > above + 1 ? least : above + 1;
    uint32_t taken = 0;
    for (uint32_t n = 0; n < m->candidates; n++) {
        int64_t entry = ranking_entry(m->values[n], m->first + n);
        m->sorted[taken] = entry;
        taken += entry >= behind && entry <= most;
    }
    return taken;
}

enum { DIGIT_BITS = 8, DIGITS = 4, BUCKETS = 1 << DIGIT_BITS };

static uint32_t digit_of(int64_t entry, uint32_t digit)
{
    uint32_t descending = ~((uint32_t)ranking_value(entry) ^ 0x80000000U);
    return descending >> (digit * DIGIT_BITS) & (BUCKETS - 1);
}

// By value, greatest first; equal values stay in their order. The result is in `sorted`.
static void sort_by_digits(merger *m, uint32_t count)
{
    uint32_t buckets[DIGITS][BUCKETS] = {{0}};
    for (uint32_t n = 0; n < count; n++)
        for (uint32_t digit = 0; digit < DIGITS; digit++)
            buckets[digit][digit_of(m->sorted[n], digit)]++;
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        uint32_t *bucket = buckets[digit], before = 0;
        if (bucket[digit_of(m->sorted[0], digit)] == count) continue; // all have this digit
        for (uint32_t b = 0; b < BUCKETS; b++) {
            uint32_t own = bucket[b];
            bucket[b] = before;
            before += own;
        }
        for (uint32_t n = 0; n < count; n++)
            m->spare[bucket[digit_of(m->sorted[n], digit)]++] = m->sorted[n];
        int64_t *sorted = m->spare;
        m->spare = m->sorted;
        m->sorted = sorted;
    }
}

// No two entries are equal.
BASE_CLONES
static void place_by_count(const int64_t *entries, uint32_t count, int64_t *out)
{
    for (uint32_t n = 0; n < count; n++) {
        uint64_t greater = 0;
        for (uint32_t other = 0; other < count; other++) greater += entries[other] > entries[n];
        out[greater] = entries[n];
    }
}

static void sort_few(merger *m, uint32_t count)
{
    int64_t *unsorted = m->sorted;
    place_by_count(unsorted, count, m->spare);
    m->sorted = m->spare;
    m->spare = unsorted;
}

// The greatest of the ranking's entries and of `count` sorted ones become the ranking's.
static void merge_sorted(const merger *m, uint8_t *entries, uint32_t count)
{
    const ranking *r = m->r;
    uint32_t old = 0, new = 0, ranks = r->ranks, kept = 0;
    while (kept < ranks && new < count) {
        int64_t there = ranking_at(entries + (int64_t)old * r->apart);
        bool stays = there > m->sorted[new];
        m->merged[kept++] = stays ? there : m->sorted[new];
        if (stays) old++;
        else new++;
    }
    for (; kept < ranks; kept++, old++)
        m->merged[kept] = ranking_at(entries + (int64_t)old * r->apart);
    for (uint32_t n = 0; n < ranks; n++)
        memcpy(entries + (int64_t)n * r->apart, &m->merged[n], sizeof m->merged[n]);
}

// A program may begin with entries in no order, into which candidates go one by one.
static bool in_order(const merger *m, const uint8_t *first)
{
    const isa_instruction *i = m->r->i;
    uint32_t index[ISA_MAX_DIMS] = {0};
    do {
        const uint8_t *entries =
            first + offset_of(&i->operand[0], m->dims[0], m->count[0], index);
        for (uint32_t n = 1; n < m->r->ranks; n++)
            if (ranking_at(entries + n * m->r->apart) > ranking_at(entries + (n - 1) * m->r->apart))
                return false;
    } while (next_index(i, m->dims[0], m->count[0], index));
    return true;
}

static void enter_sorted(merger *m, uint8_t *const *address)
{
    enum { FEW_CANDIDATES = 128 };
    const isa_instruction *i = m->r->i;
    const uint32_t *dims = m->dims[0], count = m->count[0];
    uint32_t index[ISA_MAX_DIMS] = {0};
    do {
        uint8_t *entries = address[0] + offset_of(&i->operand[0], dims, count, index);
        const uint8_t *from = address[1] + offset_of(&i->operand[1], dims, count, index);
        int64_t most = INT64_MAX, above = ranking_at(entries + (m->r->ranks - 1) * m->r->apart);
        if (i->operand_count > 3) { // those behind the last entry of another ranking
            int64_t last = ranking_at(address[3] + offset_of(&i->operand[3], dims, count, index));
            most = last == RANKING_NONE ? RANKING_NONE : last - 1;
        }
        load_candidates(m, from);
        uint32_t taken = collect(m, above, most);
        if (taken <= FEW_CANDIDATES) sort_few(m, taken);
        else sort_by_digits(m, taken);
        if (taken) merge_sorted(m, entries, taken);
    } while (next_index(i, dims, count, index));
}

// False without memory, or where there is nothing to merge.
static bool enter_all(const ranking *r, uint8_t *const *address, uint32_t first)
{
    merger m = {.r = r, .candidates = 1, .first = first};
    for (uint32_t d = 1; d <= r->last; d++) {
        uint32_t counts = r->i->operand[0].stride[d] == 0;
        m.dims[counts][m.count[counts]++] = d;
        if (counts) m.candidates *= r->i->extent[d];
    }
    if (m.count[1] == 0 || !in_order(&m, address[0])) return false;
    const size_t entries = 2 * (size_t)m.candidates + r->ranks;
    int64_t *memory = malloc(entries * sizeof *memory + m.candidates * sizeof *m.values);
    if (!memory) return false;
    m.sorted = memory;
    m.spare = memory + m.candidates;
    m.merged = m.spare + m.candidates;
    m.values = (int32_t *)(memory + entries);
    enter_sorted(&m, address);
    free(memory);
    return true;
}

// The innermost dim of candidates; 0: there is none.
static uint32_t candidates_of(const isa_instruction *i)
{
    uint32_t d = i->dim_count - 1u;
    while (d > 0 && i->operand[0].stride[d] != 0) d--;
    return d;
}

// Rankings that lie apart come one after the other: the last dim moves in front of the others, so
// that candidates which are neighbours make the runs. Their order stays.
static bool turn_rankings(const plan_tile *tile, isa_instruction *out)
{
    const isa_instruction *i = tile->instruction;
    uint32_t last = i->dim_count - 1u, near = candidates_of(i);
    const int64_t *stride = i->operand[1].stride;
    if (near == 0 || near == last || llabs(stride[near]) >= llabs(stride[last])) return false;
    if (!runs_accumulators_apart(tile, 0)) return false;
    *out = isa_copy(i);
    isa_remove_dim(out, last);
    isa_insert_dim(out, 1, i->extent[last]);
    for (uint32_t o = 0; o < i->operand_count; o++)
        out->operand[o].stride[1] = i->operand[o].stride[last];
    return true;
}

static void run_rank(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    const isa_instruction *i = tile->instruction;
    ranking r = {i, i->extent[0], i->dim_count - 1u, i->operand[0].stride[0]};
    bool few = r.ranks <= FEW_RANKS && i->operand_count == 3;
    uint32_t first;
    isa_instruction turned;
    if (few && turn_rankings(tile, &turned)) r = (ranking){&turned, r.ranks, r.last, r.apart};
    memcpy(&first, address[2], sizeof first);
    if (few) enter_runs(&r, address, first);
    else if (!enter_all(&r, address, first)) exact_run(tile, address, scratch);
}

plan_executor tile_rank(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    const spyre_format format = i->operand[1].format;
    const bool fits = format == SPYRE_FORMAT_IEEE_INT32 || lanes_fits_f32(format);
    return (plan_executor){i->dim_count > 1 && fits ? run_rank : exact_run, NEEDS_APART};
}

// --- Out of the entries

// Integers as they are; float values by way of fp32, which has them all.
static void run_ranked(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    const isa_instruction *i = tile->instruction;
    spyre_format format = i->operand[0].format;
    bool positions = opfunc_gives_positions(i->op), integers = format == SPYRE_FORMAT_IEEE_INT32;
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1);
    (void)scratch;
    runs r;
    first_run(&r, tile, address, 1);
    do {
        for (int64_t done = 0; done < run_length(tile); done += LANES_CHUNK) {
            float values[LANES_CHUNK];
            size_t count = chunk_length(run_length(tile) - done);
            for (size_t n = 0; n < count; n++) {
                int64_t entry = ranking_at(r.at[1] + (done + (int64_t)n) * from);
                int32_t value = positions ? (int32_t)ranking_position(entry)
                                          : ranking_turned(i->op, ranking_value(entry));
                if (integers) memcpy(r.at[0] + (done + (int64_t)n) * to, &value, sizeof value);
                else values[n] = ranking_to_float(value);
            }
            if (!integers) lanes_store_f32(r.at[0] + done * to, to, format, values, count);
        }
    } while (next_run(&r));
}

plan_executor tile_ranked(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    const bool integers = i->operand[0].format == SPYRE_FORMAT_IEEE_INT32;
    const bool fits = integers || !opfunc_gives_positions(i->op);
    return (plan_executor){fits ? run_ranked : exact_run, NEEDS_APART};
}
