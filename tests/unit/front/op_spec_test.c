// SPDX-License-Identifier: Apache-2.0
//
// OpSpecs say everything: what is read back gives the bundle that was compiled.
#include "unit/check.h"

#include "front/spec/op_spec.h"
#include "support/front_case.h"
#include "support/random_op.h"

static spyre_status reread(const loop_graph *loops, const spyre_settings *settings, arena *memory,
                           front_result *out)
{
    json_t *specs;
    op_spec_list list;
    TRY(op_spec_print(loops, &specs));
    json_node root = {.value = specs, .key = "specs"};
    spyre_status status = op_spec_read(&root, settings, memory, &list);
    json_decref(specs);
    TRY(status);
    return front_emit(list.loops, out);
}

static bool same_tensor(const bundle_tensor *a, const bundle_tensor *b, uint32_t cores,
                        const char **why)
{
    *why = "form";
    if (a->format != b->format || a->in_lx != b->in_lx || a->stick_dim != b->stick_dim)
        return false;
    if (a->order_count != b->order_count || memcmp(a->order, b->order, a->order_count))
        return false;
    *why = "scale, gap or size";
    if (memcmp(a->scale, b->scale, sizeof a->scale) || memcmp(a->gap, b->gap, sizeof a->gap) ||
        memcmp(a->max_size, b->max_size, sizeof a->max_size))
        return false;
    *why = "start";
    return bundle_same_starts(a, b, cores) &&
           memcmp(a->loop_stride, b->loop_stride, sizeof a->loop_stride) == 0;
}

// Launch arguments may be others (constants are tensors), addresses in them are the same.
static const char *difference(const bundle *a, const bundle *b)
{
    static char answer[128];
    if (a->steps.count != b->steps.count) return "count of steps";
    for (uint32_t i = 0; i < a->steps.count; i++) {
        const char *why = NULL;
        const bundle_step *x = &a->steps.items[i], *y = &b->steps.items[i];
        if (x->op != y->op || x->dim_count != y->dim_count ||
            x->cores->core_count != y->cores->core_count)
            why = "op, dims or cores";
        else if (memcmp(x->size, y->size, sizeof x->size) ||
                 memcmp(x->cores->core_slice, y->cores->core_slice, sizeof x->cores->core_slice))
            why = "sizes or slices";
        else if (x->mask_count != y->mask_count || x->constant_count != y->constant_count ||
                 (x->constant_count && memcmp(x->constants, y->constants,
                                              x->constant_count * sizeof *x->constants)))
            why = "masks or constants";
        for (uint32_t t = 0; t < x->tensor_count && !why; t++) {
            const char *field;
            int32_t arg = x->tensors[t].arg;
            bundle_tensor same = x->tensors[t];
            bool constant = arg >= 0 && a->args.items[arg].kind == BUNDLE_ARG_CONSTANTS;
            if (constant) {
                same.start = y->tensors[t].start;
                same.core_offset = y->tensors[t].core_offset;
            }
            if (!same_tensor(&same, &y->tensors[t], x->cores->core_count, &field)) why = field;
        }
        if (!why) continue;
        snprintf(answer, sizeof answer, "step %s: %s", x->name, why);
        return answer;
    }
    return NULL;
}

static void op_spec__random_programs_come_back(void **state)
{
    (void)state;
    uint32_t compiled = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        random_graph *g = random_graph_begin(seed);
        random_input(g, SPYRE_DTYPE_F16, random_sizes(g));
        for (uint32_t i = 0; i < 8; i++) random_step(g);
        front_case_output(&g->run, g->value[g->count - 1].id);
        front_options options = {.settings = spyre_settings_default()};
        options.settings.work_division = seed % 3 == 0;
        front_result result, again;
        uint32_t node;
        spyre_status status = front_compile(g->run.graph, &options, g->run.memory, &node, &result);
        if (!status) {
            compiled++;
            status = reread(result.loops, &options.settings, g->run.memory, &again);
            const char *why = status ? spyre_status_message(status)
                                     : difference(result.bundle, again.bundle);
            if (why) {
                text t = {0};
                loop_print(result.loops, &t);
                fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, why, text_string(&t));
            }
        }
        spyre_status_free(status);
        random_graph_end(g);
    }
    assert_true(compiled > 200);
}

static void check_value(const char *coordinate, int64_t expected)
{
    static const char *const names[] = {"c0", "c1", "row"};
    static const int64_t values[] = {7, 130, 3};
    int64_t value;
    spyre_status status = op_spec_evaluate(coordinate, names, values, 3, &value);
    if (status) fail_msg("%s", spyre_status_message(status));
    assert_int_equal(value, expected);
}

static void op_spec__coordinates_are_evaluated(void **state)
{
    (void)state;
    check_value("0", 0);
    check_value("c0", 7);
    check_value("2*c0 + 5", 19);
    check_value("floor(c1/64)", 2);
    check_value("Mod(c1, 64)", 2);
    check_value("floor((64*c0 + c1)/64)", 9);
    check_value("floor(c0 + c1/64) - -1", 10);
    check_value("4*IndirectAccess(b0) + 1", 13);
    check_value(" ( c0 ) * 2 / 7 ", 2);
    check_value("floor(-c0/2)", -4);
    check_value("Mod(-c0, 4)", 1);
    check_value("64*Mod(c1/64 + c0, 1)", 2);
}

static void check_refused(const char *coordinate, const char *message)
{
    static const char *const names[] = {"c0"};
    static const int64_t values[] = {7};
    int64_t value;
    spyre_status status = op_spec_evaluate(coordinate, names, values, 1, &value);
    assert_int_equal(spyre_status_code(status), SPYRE_INVALID_FORMAT);
    assert_string_equal(spyre_status_message(status), message);
    spyre_status_free(status);
}

static void op_spec__bad_coordinates_are_refused(void **state)
{
    (void)state;
    check_refused("", "'', character 1: expected a number, a symbol or (");
    check_refused("c0 c0", "'c0 c0', character 4: expected an operator");
    check_refused("c1", "'c1', character 3: a symbol that is no loop of the op");
    check_refused("c0/2", "'c0/2', character 5: a value that is no whole number");
    check_refused("sin(c0)", "'sin(c0)', character 7: an unknown function");
    check_refused("Mod(c0, 0)", "'Mod(c0, 0)', character 11: a modulus that is not positive");
    check_refused("c0/0", "'c0/0', character 5: a division by zero");
    check_refused("(c0", "'(c0', character 4: expected )");
    check_refused("99999999999999999999",
                  "'99999999999999999999', character 19: a number beyond 62 bits");
    char deep[100];
    memset(deep, '(', 99);
    deep[99] = 0;
    int64_t value;
    spyre_status status = op_spec_evaluate(deep, NULL, NULL, 0, &value);
    assert_non_null(strstr(spyre_status_message(status), "nested too deeply"));
    spyre_status_free(status);
}

// --- Lists that say something else than they may

// The OpSpecs of x + x, x [4, 128], one argument's field replaced.
static void check_refusal(uint32_t argument, const char *field, const char *json,
                          const char *message)
{
    front_run run = front_run_begin();
    op_spec_list list;
    json_t *specs;
    spyre_view view = sizes_view(2, 4, 128, 0);
    uint32_t x = front_case_input(&run, view);
    front_case_output(&run, front_case_binary(&run, "spyre.add", x, x, view));
    loop_graph *loops = front_case_before(&run, 2, NULL);
    assert_ok(op_spec_print(loops, &specs));
    json_t *arguments = json_object_get(json_array_get(specs, 0), "args");
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    json_object_set_new(json_array_get(arguments, argument), field, value);
    json_node root = {.value = specs, .key = "specs"};
    spyre_status status = op_spec_read(&root, &run.settings, run.memory, &list);
    json_decref(specs);
    assert_int_equal(spyre_status_code(status), SPYRE_INVALID_FORMAT);
    if (!strstr(spyre_status_message(status), message))
        fail_msg("%s", spyre_status_message(status));
    spyre_status_free(status);
    front_run_end(&run);
}

static void op_spec__bad_arguments_are_refused(void **state)
{
    (void)state;
    check_refusal(0, "device_dtype", "\"FLOAT7\"",
                  "device_dtype 'FLOAT7' is no format of the card");
    check_refusal(0, "arg_index", "-1", "arg_index -1 does not lie in 'hbm'");
    check_refusal(0, "allocation", "{\"lx\": 0}", "arg_index 0 does not lie in 'lx'");
    check_refusal(0, "device_size", "[4, 2]", "expected");
    check_refusal(0, "device_coordinates", "[\"c0\", \"c0\", \"0\"]", "does not move along one");
    check_refusal(0, "device_coordinates", "[\"0\", \"Mod(c0, 3)\", \"0\"]", "not linear");
    check_refusal(0, "device_coordinates", "[\"0\", \"2*c0\", \"0\"]", "I-10");
    check_refusal(1, "device_size", "[2, 5, 64]", "b0 is described differently before");
    check_refusal(2, "is_input", "true", "the last argument is the result");
    check_refusal(2, "arg_index", "0", "b0 and b1 are both argument 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(op_spec__coordinates_are_evaluated),
        cmocka_unit_test(op_spec__bad_coordinates_are_refused),
        cmocka_unit_test(op_spec__bad_arguments_are_refused),
        cmocka_unit_test(op_spec__random_programs_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
