// SPDX-License-Identifier: Apache-2.0
//
// What executables tell about other sizes, as bytes: a reason why one program does not serve
// them, or the programs with their corrections and the expressions of their values. The bundles
// stay away: stages are made again on request.
#include <stdio.h>

#include "base/bytes.h"
#include "compile/cache/cache.h"
#include "compile/sizes/size_rules.h"

// --- Writing

static void put_expressions(const spyrecode_sizes *sizes, text *out)
{
    bytes_put_number(out, sizes->expression_count);
    for (uint32_t e = 0; e < sizes->expression_count; e++) {
        const spyrecode_expression *expression = &sizes->expressions[e];
        bytes_put_number(out, expression->term_count);
        for (uint32_t t = 0; t < expression->term_count; t++) {
            bytes_put_number(out, (uint64_t)expression->terms[t].factor);
            for (uint32_t k = 0; k < sizes->symbol_count; k++)
                bytes_put_number(out, expression->terms[t].power[k]);
        }
    }
}

static void put_constants(const size_segment *segment, text *out)
{
    bytes_put_number(out, segment->constants.count);
    for (uint32_t n = 0; n < segment->constants.count; n++) {
        const size_constant *constant = &segment->constants.items[n];
        bytes_put_number(out, (uint64_t)constant->offset);
        bytes_put_number(out, constant->format);
        bytes_put_number(out, constant->form);
        bytes_put_number(out, (uint64_t)constant->most);
        for (uint32_t k = 0; k < SPYRE_MOST_SIZES; k++)
            bytes_put_number(out, (uint64_t)constant->next[k]);
    }
}

static spyre_status put_segment(arena *memory, const size_segment *segment, text *out)
{
    uint8_t *image = NULL;
    size_t length = 0;
    if (segment->program) TRY(isa_encode(memory, segment->program, &image, &length));
    bytes_put_number(out, length);
    bytes_put(out, image, length);
    if (segment->program) put_expressions(&segment->sizes, out);
    if (segment->program) put_constants(segment, out);
    return NULL;
}

static spyre_status put_segments(const size_rules *rules, uint32_t count, text *out)
{
    arena *memory = arena_create();
    spyre_status status = memory ? NULL : status_no_memory();
    for (uint32_t s = 0; s < count && !status; s++)
        status = put_segment(memory, &rules->segments[s], out);
    arena_destroy(memory);
    return status;
}

// --- Reading

static spyre_status take_term(bytes_reader *from, uint32_t symbols, spyrecode_term *out)
{
    out->factor = (int64_t)bytes_take_number(from);
    for (uint32_t k = 0; k < symbols; k++) {
        uint64_t power = bytes_take_number(from);
        if (power > SPYRECODE_MOST_POWER)
            return status_new(SPYRE_INVALID_FORMAT, "another power of the size");
        out->power[k] = (uint8_t)power;
    }
    return NULL;
}

static spyre_status take_expressions(arena *memory, bytes_reader *from, uint32_t symbols,
                                     spyrecode_sizes *out)
{
    uint64_t count = bytes_take_number(from);
    if (count > from->length) return status_new(SPYRE_INVALID_FORMAT, "too many expressions");
    spyrecode_expression *expressions = ARENA_NEW(memory, spyrecode_expression, count);
    TRY_ALLOC(expressions);
    for (uint64_t e = 0; e < count; e++) {
        uint64_t terms = bytes_take_number(from);
        if (terms > from->length) return status_new(SPYRE_INVALID_FORMAT, "too many terms");
        spyrecode_term *term = ARENA_NEW(memory, spyrecode_term, terms);
        TRY_ALLOC(term);
        expressions[e] = (spyrecode_expression){(uint32_t)terms, term};
        for (uint64_t t = 0; t < terms; t++) TRY(take_term(from, symbols, &term[t]));
    }
    *out = (spyrecode_sizes){symbols, (uint32_t)count, NULL, expressions};
    return NULL;
}

// Sticks of the `length` bytes of the segment's constants.
static spyre_status take_constants(arena *memory, bytes_reader *from, int64_t length,
                                   size_segment *out)
{
    uint64_t count = bytes_take_number(from);
    for (uint64_t n = 0; n < count && !from->failed; n++) {
        size_constant constant = {.offset = (int64_t)bytes_take_number(from)};
        uint64_t format = bytes_take_number(from), form = bytes_take_number(from);
        constant.most = (int64_t)bytes_take_number(from);
        for (uint32_t k = 0; k < SPYRE_MOST_SIZES; k++)
            constant.next[k] = (int64_t)bytes_take_number(from);
        if (constant.offset < 0 || constant.offset > length - SPYRE_STICK_BYTES ||
            format >= SPYRE_FORMAT_COUNT || form > SIZE_RATIO)
            return status_new(SPYRE_INVALID_FORMAT, "another constant");
        constant.format = (spyre_format)format;
        constant.form = (size_constant_form)form;
        TRY(VEC_PUSH(memory, &out->constants, constant));
    }
    return NULL;
}

static int64_t constant_bytes(const executable_segment *segment)
{
    for (uint32_t k = 0; k < segment->argument_count; k++)
        if (segment->arguments[k].kind == JOB_CONSTANTS) return segment->arguments[k].bytes;
    return 0;
}

static spyre_status take_segment(const size_rules *rules, bytes_reader *from,
                                 const executable_segment *segment, size_segment *out)
{
    uint64_t length = bytes_take_number(from);
    const uint8_t *image = BYTES_TAKE(from, uint8_t, length);
    bool is_card = segment->info.kind == SPYRE_SEGMENT_CARD;
    if (from->failed || is_card != (length != 0))
        return status_new(SPYRE_INVALID_FORMAT, "another segment");
    if (!is_card) return NULL;
    TRY(isa_decode(rules->memory, image, length, &out->program));
    TRY(take_expressions(rules->memory, from, rules->count, &out->sizes));
    TRY(take_constants(rules->memory, from, constant_bytes(segment), out));
    if (out->program->arg_count != segment->argument_count ||
        out->program->value_count > out->sizes.expression_count)
        return status_new(SPYRE_INVALID_FORMAT, "another program");
    return NULL;
}

static spyre_status take(size_rules *rules, const spyre_executable *largest,
                         const uint8_t *bytes, size_t length, const char **out_why)
{
    bytes_reader from = {.bytes = bytes, .length = length};
    const char *why = bytes_take_string(&from), *place = bytes_take_string(&from);
    snprintf(rules->place, SIZE_PLACE_BYTES, "%s", place);
    TRY_NEW(rules->memory, rules->segments, largest->segment_count);
    for (uint32_t s = 0; s < largest->segment_count && !*why; s++)
        TRY(take_segment(rules, &from, &largest->segments[s], &rules->segments[s]));
    if (from.failed || from.at != length)
        return status_new(SPYRE_INVALID_FORMAT, "its length does not fit its content");
    *out_why = *why ? why : NULL;
    return NULL;
}

// --- Files

// All that determines the rules; null where the cache does not know one of the executables.
static spyre_status subject_of(const size_rules *rules, const spyre_executable *largest,
                               const char **out_subject)
{
    const char *subject = largest->subject;
    *out_subject = NULL;
    for (uint32_t k = 0; k < rules->count && subject; k++) {
        const spyre_size_span *span = &rules->spans[k];
        subject = arena_printf(rules->memory, "sizes by %lld, %lld to %lld\n%s",
                               (long long)span->granule, (long long)span->size,
                               (long long)span->most, subject);
        TRY_ALLOC(subject);
    }
    for (uint32_t n = 0; n < size_smaller_count(rules) && subject; n++) {
        const char *own = rules->smaller[n]->subject;
        if (!own) return NULL;
        subject = arena_printf(rules->memory, "%s\n%s", subject, own);
        TRY_ALLOC(subject);
    }
    *out_subject = subject;
    return NULL;
}

spyre_status size_rules_recall(size_rules *rules, const spyre_executable *largest,
                               bool *out_known, const char **out_why)
{
    const char *subject;
    const uint8_t *bytes = NULL;
    size_t length = 0;
    *out_known = false;
    TRY(subject_of(rules, largest, &subject));
    if (subject) TRY(cache_recall(rules->memory, subject, &bytes, &length));
    if (!bytes) return NULL;
    spyre_status status = take(rules, largest, bytes, length, out_why);
    if (spyre_status_code(status) == SPYRE_OUT_OF_MEMORY) return status;
    *out_known = !status;               // else they are found anew, and written
    spyre_status_free(status);
    return NULL;
}

spyre_status size_rules_keep(const size_rules *rules, const spyre_executable *largest,
                             const char *why)
{
    const char *subject;
    text bytes = {0};
    TRY(subject_of(rules, largest, &subject));
    if (!subject) return NULL;
    bytes_put_string(&bytes, why ? why : "");
    bytes_put_string(&bytes, rules->place);
    spyre_status status = why ? NULL : put_segments(rules, largest->segment_count, &bytes);
    if (!status) status = text_status(&bytes);
    if (!status) cache_keep(subject, &bytes);
    text_free(&bytes);
    return status;
}
