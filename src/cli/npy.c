// SPDX-License-Identifier: Apache-2.0
#include "npy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output_file.h"

enum { LARGEST_HEADER = 1 << 16 };

static const struct {
    const char *name;
    spyre_dtype dtype;
} types[] = {{"<f2", SPYRE_DTYPE_F16}, {"<f4", SPYRE_DTYPE_F32}, {"|b1", SPYRE_DTYPE_BOOL},
             {"<i8", SPYRE_DTYPE_I64}, {"<i4", SPYRE_DTYPE_I32}, {"<i2", SPYRE_DTYPE_I16},
             {"|i1", SPYRE_DTYPE_I8}};

static bool fail(char *message, const char *what)
{
    snprintf(message, NPY_MESSAGE, "%s", what);
    return false;
}

// The value of a key of the header, "'descr': '<f2'", or null.
static const char *value_of(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    if (!at) return NULL;
    at = strchr(at, ':');
    if (!at) return NULL;
    for (at++; *at == ' '; at++) continue;
    return at;
}

static bool parse_dtype(const char *header, npy_array *array, char *message)
{
    const char *descr = value_of(header, "'descr'");
    for (size_t t = 0; descr && t < sizeof types / sizeof *types; t++) {
        array->dtype = types[t].dtype;
        if (*descr == '\'' && strncmp(descr + 1, types[t].name, 3) == 0) return true;
    }
    return fail(message, "an array of another type than f2, f4, b1, i8, i4, i2, i1");
}

static bool parse_shape(const char *header, npy_array *array, char *message)
{
    const char *at = value_of(header, "'shape'"), *order = value_of(header, "'fortran_order'");
    if (!order || strncmp(order, "False", 5) != 0)
        return fail(message, "an array in Fortran order");
    if (!at || *at != '(') return fail(message, "a header without a shape");
    array->byte_count = spyre_dtype_bytes(array->dtype);
    for (at++; *at != ')';) {
        char *end;
        long long size = strtoll(at, &end, 10);
        if (end == at || size < 0 || array->rank == NPY_MOST_RANK)
            return fail(message, "a shape that cannot be read");
        array->size[array->rank++] = size;
        if (__builtin_mul_overflow(array->byte_count, size, &array->byte_count) ||
            array->byte_count >> 40)
            return fail(message, "an array of 2^40 bytes or more");
        for (at = end; *at == ',' || *at == ' '; at++) continue;
    }
    return true;
}

static bool read_header(FILE *file, char *header, char *message)
{
    uint8_t start[12] = {0};
    size_t length, wide;
    if (fread(start, 1, 10, file) != 10 || memcmp(start, "\x93NUMPY", 6) != 0)
        return fail(message, "no file of NumPy");
    wide = start[6] > 1 ? 2 : 0;
    if (wide && fread(start + 10, 1, wide, file) != wide) return fail(message, "it ends early");
    length = start[8] | (size_t)start[9] << 8 | (size_t)start[10] << 16 | (size_t)start[11] << 24;
    if (length >= LARGEST_HEADER) return fail(message, "a header of 64 KiB or more");
    if (fread(header, 1, length, file) != length) return fail(message, "it ends early");
    header[length] = 0;
    return true;
}

static bool read_array(FILE *file, npy_array *array, char *message)
{
    char *header = malloc(LARGEST_HEADER + 1);
    bool good = header && read_header(file, header, message) &&
                parse_dtype(header, array, message) && parse_shape(header, array, message);
    free(header);
    if (!good) return false;
    array->bytes = malloc((size_t)array->byte_count + 1);
    if (!array->bytes) return fail(message, "no memory for it");
    size_t found = fread(array->bytes, 1, (size_t)array->byte_count, file);
    if (found != (size_t)array->byte_count) return fail(message, "fewer bytes than its shape says");
    return fgetc(file) == EOF ? true : fail(message, "more bytes than its shape says");
}

bool npy_read(const char *path, npy_array *out_array, char message[NPY_MESSAGE])
{
    *out_array = (npy_array){0};
    *message = 0;
    FILE *file = fopen(path, "rb");
    if (!file) return fail(message, strerror(errno));
    bool good = read_array(file, out_array, message);
    fclose(file);
    if (good) return true;
    free(out_array->bytes);
    out_array->bytes = NULL;
    return false;
}

static void write_header(const npy_array *array, char *header, size_t room)
{
    const char *name = "|i1";
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        if (types[t].dtype == array->dtype) name = types[t].name;
    int length = snprintf(header, room, "{'descr': '%s', 'fortran_order': False, 'shape': (", name);
    for (uint32_t d = 0; d < array->rank; d++)
        length += snprintf(header + length, room - (size_t)length, "%lld,%s",
                           (long long)array->size[d], d + 1 < array->rank ? " " : "");
    length += snprintf(header + length, room - (size_t)length, "), }");
    while ((length + 11) % 64) header[length++] = ' ';      // 10 bytes before, a newline behind
    header[length++] = '\n';
    header[length] = 0;
}

bool npy_write(const char *path, const npy_array *array, char message[NPY_MESSAGE])
{
    char header[512];
    write_header(array, header, sizeof header - 64);
    size_t length = strlen(header), bytes = (size_t)array->byte_count;
    const uint8_t start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)length,
                               (uint8_t)(length >> 8)};
    output_file file;
    if (!output_file_open(path, &file)) return fail(message, strerror(errno));
    bool good = fwrite(start, 1, sizeof start, file.stream) == sizeof start &&
                fwrite(header, 1, length, file.stream) == length &&
                fwrite(array->bytes, 1, bytes, file.stream) == bytes;
    return output_file_close(&file, good) || fail(message, strerror(errno));
}
