// SPDX-License-Identifier: Apache-2.0
//
// Copies between random views of random layouts, beside the places that transfers give elements.
#include <stdlib.h>

#include "tensor/card_copy.h"
#include "unit/tensor/dci_sample.h"

enum { ROUNDS = 500 };

typedef struct {
    sample of;
    spyre_view view;
    int64_t *places;                    // of each host element, in elements of the card
    uint8_t *card;
} side;

// A tensor around a view of these sizes: some of each dim, in steps, dims in any order.
static side random_side(arena *memory, const int64_t *sizes, uint32_t rank, spyre_dtype dtype,
                        bool is_source, uint64_t *random)
{
    side s = {.of = {.dtype = dtype}, .view = {.rank = rank}};
    int64_t size[SPYRE_MAX_RANK], first[SPYRE_MAX_RANK], step[SPYRE_MAX_RANK];
    int32_t order[SPYRE_MAX_RANK], turned[SPYRE_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        bool whole = check_random(random) % 2;
        step[i] = whole || check_random(random) % 4 ? 1 : 2 + (int64_t)(check_random(random) % 2);
        first[i] = whole ? 0 : (int64_t)(check_random(random) % 70);
        size[i] = first[i] + (sizes[i] - 1) * step[i] + 1 +
                  (whole ? 0 : (int64_t)(check_random(random) % 3));
    }
    for (uint32_t i = 0; i < rank; i++) turned[i] = order[i] = (int32_t)i;
    shuffle(turned, rank, random);
    if (check_random(random) % 2) // as they are
        for (uint32_t i = 0; i < rank; i++) turned[i] = (int32_t)i;
    int64_t laid[SPYRE_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) laid[turned[i]] = size[i];
    s.of.host = dense_view(laid, rank);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t stride = s.of.host.stride[turned[i]];
        bool repeats = is_source && check_random(random) % 8 == 0;
        s.view.size[i] = sizes[i];
        s.view.stride[i] = repeats ? 0 : stride * step[i];
        s.view.offset += first[i] * stride;
    }
    shuffle(order, rank, random);
    assert_ok(spyre_layout_ordered(s.of.host.size, s.of.host.stride, rank, dtype, order, rank,
                                   &s.of.layout));
    s.places = card_places(memory, &s.of);
    size_t bytes = (size_t)spyre_layout_bytes(&s.of.layout);
    s.card = ARENA_NEW(memory, uint8_t, bytes);
    for (size_t n = 0; n < bytes; n++)
        s.card[n] = is_source ? (uint8_t)check_random(random) : GUARD;
    return s;
}

// Dims that are one run in both views become one.
static void merge_dims(spyre_view *a, spyre_view *b)
{
    for (uint32_t i = a->rank; i-- > 1;) {
        bool joins = true;
        const spyre_view *both[] = {a, b};
        for (int n = 0; n < 2; n++)
            joins &= both[n]->stride[i - 1] == both[n]->size[i] * both[n]->stride[i];
        if (!joins) continue;
        for (int n = 0; n < 2; n++) {
            spyre_view *v = n ? b : a;
            v->size[i - 1] *= v->size[i];
            v->stride[i - 1] = v->stride[i];
            for (uint32_t k = i; k + 1 < v->rank; k++) {
                v->size[k] = v->size[k + 1];
                v->stride[k] = v->stride[k + 1];
            }
            v->rank--;
        }
    }
}

static void assert_copied(const side *to, const side *from)
{
    size_t bytes = (size_t)spyre_layout_bytes(&to->of.layout);
    size_t wide = spyre_format_bytes(to->of.layout.format);
    uint8_t *wanted = malloc(bytes);
    int64_t index[SPYRE_MAX_RANK] = {0};
    memset(wanted, GUARD, bytes);
    do {
        int64_t at = to->places[host_position(&to->view, index)];
        int64_t of = from->places[host_position(&from->view, index)];
        memcpy(wanted + (size_t)at * wide, from->card + (size_t)of * wide, wide);
    } while (next_index(&to->view, index));
    assert_memory_equal(wanted, to->card, bytes);
    free(wanted);
}

static bool check_round(uint64_t seed)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 40, 64, 96, 130, 200};
    static const spyre_dtype dtypes[] = {SPYRE_DTYPE_F16, SPYRE_DTYPE_F32, SPYRE_DTYPE_I8,
                                         SPYRE_DTYPE_I64};
    uint64_t random = seed;
    arena *memory = arena_create();
    int64_t size[3], elements = 1;
    uint32_t rank = 1 + (uint32_t)(check_random(&random) % 3);
    for (uint32_t i = 0; i < rank; i++) {
        size[i] = sizes[check_random(&random) % (elements > 100 ? 4 : 9)];
        elements *= size[i];
    }
    spyre_dtype dtype = dtypes[check_random(&random) % 4];
    side to = random_side(memory, size, rank, dtype, false, &random);
    side from = random_side(memory, size, rank, dtype, true, &random);
    if (check_random(&random) % 2) merge_dims(&to.view, &from.view);
    card_copy copy;
    bool built = card_copy_build(&(laid_view){&to.of.layout, &to.of.host, &to.view},
                                 &(laid_view){&from.of.layout, &from.of.host, &from.view}, &copy);
    if (built) {
        uint32_t parts = 1 + (uint32_t)(check_random(&random) % 3);
        for (uint32_t n = 0; n < parts; n++)
            card_copy_run(&copy, (char *)to.card, (const char *)from.card, n, parts);
        assert_copied(&to, &from);
        assert_int_equal(copy.bytes, count_elements(&to.view) *
                                         spyre_format_bytes(to.of.layout.format));
    }
    arena_destroy(memory);
    return built;
}

static void card_copy__random_views(void **state)
{
    (void)state;
    uint32_t built = 0;
    for (uint32_t n = 0; n < ROUNDS; n++) built += check_round(n * 7919u + 1);
    assert_true(built > ROUNDS * 3 / 5);
}

static void card_copy__rows_are_one_run_per_stick(void **state)
{
    (void)state;
    const int64_t size[] = {2048, 1024};
    spyre_view host = dense_view(size, 2), part = host;
    spyre_layout layout;
    card_copy copy;
    part.size[0] = 2046;
    part.offset = 1024;
    assert_ok(spyre_layout_default(size, 2, SPYRE_DTYPE_F16, &layout));
    const laid_view both = {&layout, &host, &part};
    assert_true(card_copy_build(&both, &both, &copy));
    assert_int_equal(copy.nests, 1);
    assert_int_equal(copy.nest[0].loops, 2);
    assert_int_equal(copy.nest[0].loop[0].size, 16);
    assert_int_equal(copy.nest[0].loop[1].size, 2046 * 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(card_copy__random_views),
        cmocka_unit_test(card_copy__rows_are_one_run_per_stick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
