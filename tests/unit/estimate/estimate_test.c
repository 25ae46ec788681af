// SPDX-License-Identifier: Apache-2.0
//
// Estimates of a small model: which divisions there are, what they say, what is refused.
#include "unit/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "estimate/division.h"
#include "spyre/estimate.h"
#include "spyre/graph.h"

#define SMALL \
    "{\"model_type\": \"llama\", \"hidden_size\": 256, \"intermediate_size\": 512, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"num_hidden_layers\": 4, " \
    "\"vocab_size\": 1000"

static spyre_status estimate(const char *config, const spyre_estimate_options *options,
                             char **out_table, char **out_picture)
{
    char path[] = "/tmp/estimateXXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, config, strlen(config)), strlen(config));
    close(file);
    spyre_status status = spyre_estimate(path, options, out_table, out_picture);
    unlink(path);
    return status;
}

static spyre_estimate_options small(void)
{
    spyre_estimate_options o = spyre_estimate_options_default();
    o.cards = 4;
    o.batch = 4;
    o.prompt = 64;
    o.context = 128;
    return o;
}

static void estimate__has_a_row_a_division_and_a_bar(void **state)
{
    (void)state;
    char *table, *picture;
    spyre_estimate_options o = small();
    assert_ok(estimate(SMALL "}", &o, &table, &picture));
    assert_non_null(strstr(table, "llama of 4 layers on 4 cards"));
    uint32_t rows = 0, bars = 0;
    for (const char *at = picture; (at = strstr(at, ">tp ")); at++) bars++;
    for (const char *at = table; (at = strchr(at, '\n')); at++) rows++;
    assert_int_equal(bars, 6);          // 1x1 1x2 1x4 2x1 2x2 4x1
    assert_int_equal(rows, 3 + 6 + 2);
    spyre_string_free(table);
    spyre_string_free(picture);
}

static void assert_refused(const char *config, spyre_estimate_options o, const char *words)
{
    char *table, *picture;
    spyre_status status = estimate(config, &o, &table, &picture);
    if (!status || !strstr(spyre_status_message(status), words))
        print_error("%s\n", status ? spyre_status_message(status) : "accepted");
    assert_true(status && strstr(spyre_status_message(status), words));
    assert_null(table);
    spyre_status_free(status);
}

static void estimate__refuses_what_breaks_a_rule(void **state)
{
    (void)state;
    spyre_estimate_options o = small();
    assert_refused("{}", o, "model_type");
    assert_refused("{\"model_type\": \"mamba\"}", o, "must be \"llama\" or \"mistral\"");
    assert_refused(SMALL ", \"head_dim\": 5}", o, "head_dim 5: must be even");
    assert_refused(SMALL ", \"head_dim\": 0}", o, "head_dim");
    o.cards = 5000;
    assert_refused(SMALL "}", o, "--cards 5000: must be 1..4096");
    o = small();
    o.context = 3;
    assert_refused(SMALL "}", o, "--context 3: must be 64..");
    o = small();
    o.tensor = 3;
    assert_refused(SMALL "}", o, "--tp 3: the attention heads");
    o.tensor = 1;
    o.pipeline = 3;
    assert_refused(SMALL "}", o, "4 cards are no multiple");
}

// Cards share the products, so each takes less, and a step of more cards is not slower than that of
// one by more than its exchanges.
static void estimate__divides_work(void **state)
{
    (void)state;
    const estimate_model m = {.kind = "llama", .layers = 2, .hidden = 4096, .heads = 32,
                              .kv_heads = 8, .head_dim = 128, .intermediate = 14336,
                              .vocabulary = 32000};
    spyre_estimate_options o = small();
    price_list *prices = price_list_create(&m);
    division one = {.tensor = 1, .pipeline = 1}, two = {.tensor = 2, .pipeline = 1};
    assert_ok(division_price(&m, &o, prices, &one));
    assert_ok(division_price(&m, &o, prices, &two));
    double card_one = one.decode.compute_us + one.decode.memory_us;
    double card_two = two.decode.compute_us + two.decode.memory_us;
    assert_true(card_two < 0.65 * card_one);
    assert_true(one.decode.exchange_us == 0 && two.decode.exchange_us > 0);
    assert_true(fabs(one.decode.us - card_one) < 1e-6 * card_one);
    assert_true(two.bytes < 0.65 * one.bytes);
    price_list_destroy(prices);
}

static void estimate__says_what_does_not_fit(void **state)
{
    (void)state;
    const estimate_model m = {.kind = "llama", .layers = 80, .hidden = 8192, .heads = 64,
                              .kv_heads = 8, .head_dim = 128, .intermediate = 28672,
                              .vocabulary = 128256};
    spyre_estimate_options o = spyre_estimate_options_default();
    division d = {.tensor = 1, .pipeline = 1, .copies = 8};
    price_list *prices = price_list_create(&m);
    assert_ok(division_price(&m, &o, prices, &d));
    assert_false(d.fits);
    // 70.55e9 parameters of 2 bytes, less the last norm, and 20 GiB of keys and values
    assert_true(fabs(d.bytes - 2 * 70.5537e9 - 20.0 * (1 << 30)) < 1e7);
    price_list_destroy(prices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimate__has_a_row_a_division_and_a_bar),
        cmocka_unit_test(estimate__refuses_what_breaks_a_rule),
        cmocka_unit_test(estimate__divides_work),
        cmocka_unit_test(estimate__says_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
