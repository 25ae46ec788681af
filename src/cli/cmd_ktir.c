// SPDX-License-Identifier: Apache-2.0
//
// spyre ktir print|run|why|lower|plan: KTIR kernels.
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "ktir_input.h"
#include "spyre/graph.h"

typedef struct {
    ktir_request kernel;
    bool interpret;
    counters_options counters;
} request;

static int read_request(cli_arguments *in, request *r)
{
    while (in->at < in->count) {
        int code;
        if (cli_flag(in, "--interpret")) r->interpret = true;
        else if (counters_option(in, &r->counters)) continue;
        else if (!ktir_request_take(in, &r->kernel, &code)) return cli_unexpected(in);
        else if (code) return code;
    }
    return CLI_OK;
}

static int print_kernel(const request *r)
{
    spyre_ktir *kernel = NULL;
    char *printed = NULL;
    int code = ktir_open(&r->kernel, &kernel);
    if (!code) code = cli_report("ktir", spyre_ktir_print(kernel, &printed));
    if (!code) code = cli_print("ktir", printed);
    spyre_string_free(printed);
    spyre_ktir_destroy(kernel);
    return code;
}

static int run_on_card(const request *r, const ktir_input *input)
{
    spyre_ktir_program *program = NULL;
    spyre_context *context = NULL;
    spyre_status status = spyre_ktir_lower(input->kernel, &input->options, input->values, &program);
    if (!status) status = spyre_context_create(1, &context);
    if (!status) status = spyre_ktir_program_run(context, 0, program, input->values);
    spyre_context_destroy(context);
    int code = cli_report("ktir", status);
    if (!code) {
        uint32_t count;
        const spyre_kernel_counters *kernels = spyre_ktir_program_counters(program, &count);
        counters_print(&r->counters, kernels, count);
        code = cli_print("ktir", "");
    }
    spyre_ktir_program_destroy(program);
    return code;
}

static int run_kernel(const request *r)
{
    static ktir_input input;
    int code = ktir_input_read(&r->kernel, false, &input);
    if (!code && r->interpret)
        code = cli_report("ktir", spyre_ktir_interpret(input.kernel, &input.options, input.values));
    else if (!code) code = run_on_card(r, &input);
    if (!code) code = ktir_input_write(&input);
    ktir_input_free(&input);
    return code;
}

// What is said of the program without running it.
static int tell(const request *r,
                spyre_status (*print)(const spyre_ktir_program *program, char **out_text))
{
    static ktir_input input;
    spyre_ktir_program *program = NULL;
    char *told = NULL;
    int code = ktir_input_read(&r->kernel, true, &input);
    if (!code)
        code = cli_report("ktir", spyre_ktir_lower(input.kernel, &input.options, input.values,
                                                   &program));
    if (!code) code = cli_report("ktir", print(program, &told));
    if (!code) code = cli_print("ktir", told);
    spyre_string_free(told);
    spyre_ktir_program_destroy(program);
    ktir_input_free(&input);
    return code;
}

int cmd_ktir(int count, char **arguments)
{
    cli_arguments in = {.command = "ktir", .count = count, .items = arguments, .at = 1};
    static request r;
    r = (request){0};
    if (!count) return cli_complain("ktir", "print, run, why, lower or plan is missing");
    int code = read_request(&in, &r);
    if (code) return code;
    if (strcmp(arguments[0], "print") == 0) return print_kernel(&r);
    if (strcmp(arguments[0], "run") == 0) return run_kernel(&r);
    if (strcmp(arguments[0], "why") == 0) return tell(&r, spyre_ktir_why);
    if (strcmp(arguments[0], "lower") == 0) return tell(&r, spyre_ktir_program_listing);
    if (strcmp(arguments[0], "plan") == 0) return tell(&r, spyre_ktir_program_plan);
    return cli_complain("ktir", "'%s': expected print, run, why, lower or plan", arguments[0]);
}
