// SPDX-License-Identifier: Apache-2.0
#include "ktir_input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_FILE = 1 << 28 };

static int add(const char **list, uint32_t *count, const char *value, const char *option)
{
    const char *sign = strchr(value, '=');
    if (!sign || sign == value || !sign[1])
        return cli_complain("ktir", "%s '%s': expected NAME=VALUE", option, value);
    if (*count == KTIR_INPUT_MOST)
        return cli_complain("ktir", "%s: more than %d of them", option, KTIR_INPUT_MOST);
    list[(*count)++] = value;
    return CLI_OK;
}

static int read_steps(const char *value, uint64_t *out_steps)
{
    char *end;
    errno = 0;
    *out_steps = strtoull(value, &end, 10);
    if (end != value && !*end && !errno && *value != '-' && *out_steps) return CLI_OK;
    return cli_complain("ktir", "--steps '%s': expected a positive integer", value);
}

bool ktir_request_take(cli_arguments *in, ktir_request *r, int *out_code)
{
    const char *value;
    *out_code = CLI_OK;
    if (cli_option(in, "--input", &value))
        *out_code = add(r->inputs, &r->input_count, value, "--input");
    else if (!in->failed && cli_option(in, "--output", &value))
        *out_code = add(r->outputs, &r->output_count, value, "--output");
    else if (!in->failed && cli_option(in, "--number", &value))
        *out_code = add(r->numbers, &r->number_count, value, "--number");
    else if (!in->failed && cli_option(in, "--function", &value)) r->function = value;
    else if (!in->failed && cli_option(in, "--grid", &value)) r->grid = value;
    else if (!in->failed && cli_option(in, "--steps", &value))
        *out_code = read_steps(value, &r->steps);
    else if (in->failed) *out_code = CLI_BAD_INPUT;
    else if (in->items[in->at][0] == '-' || r->file) return false;
    else r->file = in->items[in->at++];
    return true;
}

static int read_file(const char *path, char **out_text)
{
    FILE *file = fopen(path, "rb");
    size_t length = 0, room = 1 << 16;
    char *bytes = file ? malloc(room) : NULL;
    int reason = errno;
    while (bytes && room <= LARGEST_FILE) {
        length += fread(bytes + length, 1, room - 1 - length, file);
        if (length < room - 1) break;
        char *more = realloc(bytes, room *= 2);
        if (!more) free(bytes);
        bytes = more;
    }
    bool failed = !file || !bytes || ferror(file) || length == room - 1;
    if (file) fclose(file);
    if (failed) {
        free(bytes);
        return cli_complain("ktir", "%s: %s", path, file ? "cannot be read" : strerror(reason));
    }
    bytes[length] = 0;
    *out_text = bytes;
    if (strlen(bytes) == length) return CLI_OK;
    free(bytes);
    return cli_complain("ktir", "%s: a zero byte: it is no text", path);
}

int ktir_open(const ktir_request *r, spyre_ktir **out_kernel)
{
    char *source = NULL;
    *out_kernel = NULL;
    if (!r->file) return cli_complain("ktir", "a file is missing");
    int code = read_file(r->file, &source);
    if (code) return code;
    code = cli_report("ktir", spyre_ktir_parse(source, r->file, out_kernel));
    free(source);
    return code;
}

static int find_function(const ktir_request *r, ktir_input *input)
{
    uint32_t count = spyre_ktir_function_count(input->kernel);
    for (uint32_t f = 0; r->function && f < count; f++) {
        input->options.function = f;
        if (strcmp(spyre_ktir_function_name(input->kernel, f), r->function) == 0) return CLI_OK;
    }
    if (!r->function && count == 1) return CLI_OK;
    if (!r->function) return cli_complain("ktir", "%s has %u functions: --function names one",
                                          r->file, count);
    return cli_complain("ktir", "%s: there is no function '%s'", r->file, r->function);
}

static int read_grid(const char *value, spyre_ktir_options *options)
{
    const char *at = value;
    while (options->grid_rank < SPYRE_KTIR_MOST_GRID) {
        char *end;
        errno = 0;
        long long extent = strtoll(at, &end, 10);
        if (end == at || errno || extent < 1 || extent > 4096) break;
        options->grid[options->grid_rank++] = extent;
        if (!*end) return CLI_OK;
        if (*end != ',') break;
        at = end + 1;
    }
    return cli_complain("ktir", "--grid '%s': expected up to %d positive integers, 4,2", value,
                        SPYRE_KTIR_MOST_GRID);
}

// The part behind the '=' of the entry of that name, or null.
static const char *entry_of(const char *const *list, uint32_t count, const char *name)
{
    size_t length = strlen(name);
    for (uint32_t n = 0; n < count; n++)
        if (strncmp(list[n], name, length) == 0 && list[n][length] == '=')
            return list[n] + length + 1;
    return NULL;
}

static int check_names(const ktir_input *input, const char *const *list, uint32_t count,
                       bool memory)
{
    for (uint32_t n = 0; n < count; n++) {
        bool found = false;
        int length = (int)strcspn(list[n], "=");
        for (uint32_t i = 0; i < input->count && !found; i++) {
            spyre_ktir_parameter p;
            spyre_ktir_describe_parameter(input->kernel, input->options.function, i, &p);
            found = p.is_memory == memory && strlen(p.name) == (size_t)length &&
                    strncmp(p.name, list[n], (size_t)length) == 0;
        }
        if (!found)
            return cli_complain("ktir", "'%.*s': the function has no such %s", length, list[n],
                                memory ? "array" : "number");
    }
    return CLI_OK;
}

static int read_number(const spyre_ktir_parameter *p, const char *value, spyre_ktir_value *out)
{
    char *end;
    errno = 0;
    if (!value) return cli_complain("ktir", "%s: a number is wanted, --number %s=N", p->name,
                                    p->name);
    bool real = p->dtype == SPYRE_DTYPE_F16 || p->dtype == SPYRE_DTYPE_F32 ||
                p->dtype == SPYRE_DTYPE_BF16;
    if (real) out->real = strtod(value, &end);
    else out->integer = strtoll(value, &end, 0);
    if (end != value && !*end && !errno) return CLI_OK;
    return cli_complain("ktir", "--number %s=%s: no number of type %s", p->name, value,
                        spyre_dtype_name(p->dtype));
}

static int make_zeros(const spyre_ktir_parameter *p, npy_array *array)
{
    *array = (npy_array){.dtype = p->dtype, .rank = p->rank,
                         .byte_count = spyre_dtype_bytes(p->dtype)};
    for (uint32_t d = 0; d < p->rank; d++) {
        array->size[d] = p->size[d];
        if (p->size[d] < 0 || __builtin_mul_overflow(array->byte_count, p->size[d],
                                                     &array->byte_count) ||
            array->byte_count >> 36)
            return cli_complain("ktir", "%s: its size is not known, --input must give an array",
                                p->name);
    }
    array->bytes = calloc(1, (size_t)array->byte_count + 1);
    return array->bytes ? CLI_OK : cli_complain("ktir", "%s: no memory", p->name);
}

static int read_array(const ktir_request *r, const spyre_ktir_parameter *p, ktir_input *input,
                      uint32_t n)
{
    const char *path = entry_of(r->inputs, r->input_count, p->name);
    char message[NPY_MESSAGE];
    npy_array *array = &input->arrays[n];
    input->outputs[n] = entry_of(r->outputs, r->output_count, p->name);
    if (!path && !input->outputs[n]) {
        if (p->is_view) return CLI_OK;
        return cli_complain("ktir", "%s: an array is wanted, --input %s=FILE.npy or --output",
                            p->name, p->name);
    }
    if (!path) {
        int code = make_zeros(p, array);
        if (code) return code;
    } else if (!npy_read(path, array, message)) {
        return cli_complain("ktir", "%s: %s", path, message);
    } else if (array->dtype != p->dtype) {
        return cli_complain("ktir", "%s: %s, %s wants %s", path, spyre_dtype_name(array->dtype),
                            p->name, spyre_dtype_name(p->dtype));
    }
    input->values[n].bytes = array->bytes;
    input->values[n].byte_count = array->byte_count;
    return CLI_OK;
}

int ktir_input_read(const ktir_request *r, bool numbers_only, ktir_input *input)
{
    *input = (ktir_input){.options.most_steps = r->steps};
    int code = ktir_open(r, &input->kernel);
    if (!code) code = find_function(r, input);
    if (!code && r->grid) code = read_grid(r->grid, &input->options);
    if (code) return code;
    input->count = spyre_ktir_parameter_count(input->kernel, input->options.function);
    if (input->count > KTIR_INPUT_MOST)
        return cli_complain("ktir", "%s: more than %d parameters", r->file, KTIR_INPUT_MOST);
    code = check_names(input, r->inputs, r->input_count, true);
    if (!code) code = check_names(input, r->outputs, r->output_count, true);
    if (!code) code = check_names(input, r->numbers, r->number_count, false);
    for (uint32_t n = 0; n < input->count && !code; n++) {
        spyre_ktir_parameter p;
        spyre_ktir_describe_parameter(input->kernel, input->options.function, n, &p);
        if (!p.is_memory)
            code = read_number(&p, entry_of(r->numbers, r->number_count, p.name),
                               &input->values[n]);
        else if (!numbers_only) code = read_array(r, &p, input, n);
    }
    return code;
}

int ktir_input_write(const ktir_input *input)
{
    for (uint32_t n = 0; n < input->count; n++) {
        char message[NPY_MESSAGE];
        const char *path = input->outputs[n];
        if (path && !npy_write(path, &input->arrays[n], message))
            return cli_complain("ktir", "%s: %s", path, message);
    }
    return CLI_OK;
}

void ktir_input_free(ktir_input *input)
{
    for (uint32_t n = 0; n < KTIR_INPUT_MOST; n++) free(input->arrays[n].bytes);
    spyre_ktir_destroy(input->kernel);
}
