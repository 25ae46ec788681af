// SPDX-License-Identifier: Apache-2.0
#include "fuzz/mutate.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 1 << 13, MOST_OUTPUT = 1 << 17, MOST_CHANGES = 4 };

typedef enum { WORD, NUMBER, STRING, SIGN, OPEN, CLOSE, LINE_END } token_kind;

typedef struct {
    const uint8_t *at;
    uint32_t length;        // blanks behind it included
    token_kind kind;
} token;

typedef struct {
    token items[MOST_TOKENS];
    uint32_t count;
} tokens;

// A request for more memory than there is is an answer that the library has to take.
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

uint32_t mutate_below(uint64_t *random, uint32_t limit)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (uint32_t)(*random >> 20) % limit;
}

// --- Text as tokens

static bool in_word(uint8_t c)
{
    return isalnum(c) || c == '_' || c == '.' || c >= 0x80;
}

static token_kind kind_of(uint8_t c)
{
    if (c == '\n') return LINE_END;
    if (c == '"') return STRING;
    if (isdigit(c)) return NUMBER;
    if (in_word(c)) return WORD;
    if (strchr("([{<", c)) return OPEN;
    return strchr(")]}>", c) ? CLOSE : SIGN;
}

static size_t token_end(const uint8_t *bytes, size_t count, size_t at, token_kind kind)
{
    size_t end = at + 1;
    if (kind == STRING) {
        while (end < count && bytes[end] != '"' && bytes[end] != '\n')
            end += bytes[end] == '\\' && end + 1 < count ? 2 : 1;
        if (end < count && bytes[end] == '"') end++;
    } else if (kind == WORD || kind == NUMBER) {
        while (end < count && in_word(bytes[end])) end++;
    }
    return end < count ? end : count;
}

// False for what is no text, or has too many tokens.
static bool split(const uint8_t *bytes, size_t count, tokens *out)
{
    out->count = 0;
    for (size_t i = 0; i < count; i++)
        if (bytes[i] == 0 || (bytes[i] < ' ' && !isspace(bytes[i]))) return false;
    for (size_t at = 0; at < count;) {
        if (out->count == MOST_TOKENS) return false;
        token_kind kind = kind_of(bytes[at]);
        size_t end = token_end(bytes, count, at, kind);
        while (end < count && (bytes[end] == ' ' || bytes[end] == '\t')) end++;
        out->items[out->count++] = (token){bytes + at, (uint32_t)(end - at), kind};
        at = end;
    }
    return out->count > 0;
}

static void remove_tokens(tokens *t, uint32_t from, uint32_t to)
{
    memmove(t->items + from, t->items + to, (t->count - to) * sizeof *t->items);
    t->count -= to - from;
}

static void insert_tokens(tokens *t, uint32_t at, const token *piece, uint32_t length)
{
    if (t->count + length > MOST_TOKENS) return;
    memmove(t->items + at + length, t->items + at, (t->count - at) * sizeof *t->items);
    memmove(t->items + at, piece, length * sizeof *piece);
    t->count += length;
}

// The token behind the bracket that closes the one at `open`, or the end.
static uint32_t group_end(const tokens *t, uint32_t open)
{
    uint32_t depth = 0;
    for (uint32_t i = open; i < t->count; i++) {
        depth += t->items[i].kind == OPEN;
        if (t->items[i].kind == CLOSE && --depth == 0) return i + 1;
    }
    return t->count;
}

// A token of the kind at or behind a random one; t->count without.
static uint32_t find(const tokens *t, token_kind kind, uint64_t *random)
{
    uint32_t start = mutate_below(random, t->count);
    for (uint32_t n = 0; n < t->count; n++) {
        uint32_t at = (start + n) % t->count;
        if (t->items[at].kind == kind) return at;
    }
    return t->count;
}

static void line_around(const tokens *t, uint32_t at, uint32_t *out_from, uint32_t *out_to)
{
    uint32_t from = at, to = at;
    while (from > 0 && t->items[from - 1].kind != LINE_END) from--;
    while (to < t->count && t->items[to].kind != LINE_END) to++;
    *out_from = from;
    *out_to = to < t->count ? to + 1 : to;
}

// --- Changes of tokens

typedef struct {
    tokens *own, *other;        // other has no tokens when there is no other text
    uint64_t *random;
} change;

static void drop(change *c)
{
    uint32_t at = mutate_below(c->random, c->own->count);
    remove_tokens(c->own, at, at + 1);
}

static void repeat(change *c)
{
    uint32_t at = mutate_below(c->random, c->own->count);
    token copy = c->own->items[at];
    insert_tokens(c->own, at, &copy, 1);
}

static void swap(change *c)
{
    token *a = &c->own->items[mutate_below(c->random, c->own->count)];
    token *b = &c->own->items[mutate_below(c->random, c->own->count)];
    token before = *a;
    *a = *b;
    *b = before;
}

static void empty_group(change *c)
{
    uint32_t open = find(c->own, OPEN, c->random);
    if (open == c->own->count) return;
    uint32_t end = group_end(c->own, open);
    if (end > open + 2) remove_tokens(c->own, open + 1, end - 1);
}

// An item of a list: from one comma, or blank, to the next.
static void change_item(change *c)
{
    uint32_t open = find(c->own, OPEN, c->random);
    if (open == c->own->count) return;
    uint32_t end = group_end(c->own, open);
    if (end < open + 3) return;
    uint32_t from = open + 1 + mutate_below(c->random, end - open - 2), to = from + 1;
    while (to < end - 1 && *c->own->items[to].at != ',' &&
           c->own->items[to - 1].at[c->own->items[to - 1].length - 1] != ' ')
        to++;
    if (mutate_below(c->random, 2)) {
        remove_tokens(c->own, from, to);
    } else {
        insert_tokens(c->own, to, c->own->items + from, to - from);
    }
}

static void change_number(change *c)
{
    static const char *const numbers[] = {
        "0 ", "1 ", "-1 ", "2 ", "3 ", "7 ", "8 ", "31 ", "32 ", "33 ", "63 ", "64 ", "65 ", "127 ",
        "128 ", "255 ", "256 ", "4095 ", "65535 ", "65536 ", "2097152 ", "2147483647 ",
        "2147483648 ", "-2147483648 ", "4294967295 ", "4294967296 ", "17179869184 ",
        "1099511627776 ", "72057594037927936 ", "9223372036854775807 ", "-9223372036854775808 ",
        "9223372036854775808 ", "1e400 ", "0.5 ", "nan ", "inf ",
    };
    uint32_t at = find(c->own, NUMBER, c->random);
    if (at == c->own->count) return;
    const char *number = numbers[mutate_below(c->random, sizeof numbers / sizeof *numbers)];
    token *t = &c->own->items[at];
    bool blank = t->at[t->length - 1] == ' ';
    *t = (token){(const uint8_t *)number, (uint32_t)strlen(number) - !blank, NUMBER};
}

// A word becomes another word, a number another number, a string another string.
static void change_to_alike(change *c)
{
    tokens *from = c->other->count && mutate_below(c->random, 2) ? c->other : c->own;
    token *t = &c->own->items[mutate_below(c->random, c->own->count)];
    uint32_t source = find(from, t->kind, c->random);
    if (source < from->count) *t = from->items[source];
}

static void change_line(change *c)
{
    uint32_t from, to;
    tokens *source = c->other->count && mutate_below(c->random, 2) ? c->other : c->own;
    line_around(source, mutate_below(c->random, source->count), &from, &to);
    if (source == c->own && mutate_below(c->random, 2)) {
        remove_tokens(c->own, from, to);
        return;
    }
    uint32_t here, behind;
    line_around(c->own, mutate_below(c->random, c->own->count), &here, &behind);
    if (mutate_below(c->random, 2)) {
        static token copy[MOST_TOKENS];
        memcpy(copy, source->items + from, (to - from) * sizeof *copy);
        uint32_t length = to - from;
        remove_tokens(c->own, here, behind);
        insert_tokens(c->own, here, copy, length);
    } else {
        insert_tokens(c->own, here, source->items + from, to - from);
    }
}

// What a pair of brackets holds is replaced by what another pair holds.
static void change_group(change *c)
{
    tokens *source = c->other->count && mutate_below(c->random, 2) ? c->other : c->own;
    uint32_t open = find(c->own, OPEN, c->random), other = find(source, OPEN, c->random);
    static token copy[MOST_TOKENS];
    if (open == c->own->count || other == source->count) return;
    uint32_t end = group_end(c->own, open), other_end = group_end(source, other);
    uint32_t length = other_end - other;
    memcpy(copy, source->items + other, length * sizeof *copy);
    remove_tokens(c->own, open, end);
    insert_tokens(c->own, open, copy, length);
}

// The first lines of one input, the last ones of another.
static void splice(change *c)
{
    uint32_t from, to, other_from, other_to;
    if (!c->other->count) return;
    line_around(c->own, mutate_below(c->random, c->own->count), &from, &to);
    line_around(c->other, mutate_below(c->random, c->other->count), &other_from, &other_to);
    remove_tokens(c->own, from, c->own->count);
    insert_tokens(c->own, from, c->other->items + other_from, c->other->count - other_from);
}

static size_t mutate_text(tokens *own, tokens *other, uint8_t *bytes, size_t capacity,
                          uint64_t *random)
{
    static void (*const changes[])(change *) = {
        drop, repeat, swap, empty_group, empty_group, change_item, change_item, change_number,
        change_number, change_number, change_to_alike, change_to_alike, change_line, change_group,
        splice,
    };
    static uint8_t made[MOST_OUTPUT];
    size_t length = 0;
    change c = {own, other, random};
    for (uint32_t n = 1 + mutate_below(random, MOST_CHANGES); n > 0 && own->count; n--)
        changes[mutate_below(random, sizeof changes / sizeof *changes)](&c);
    for (uint32_t i = 0; i < own->count; i++) {
        const token *t = &own->items[i];
        if (length + t->length > capacity || length + t->length > sizeof made) break;
        memcpy(made + length, t->at, t->length);
        length += t->length;
    }
    memcpy(bytes, made, length);
    return length;
}

// --- Other inputs as words

static size_t mutate_words(uint8_t *bytes, size_t count, size_t capacity, const uint8_t *other,
                           size_t other_count, uint64_t *random)
{
    static const int64_t extremes[] = {0, 1, -1, 127, 128, 255, 256, 32767, 65535, 65536,
                                       INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN,
                                       1LL << 34, 1LL << 40, 1LL << 56};
    size_t width = (size_t)1 << mutate_below(random, 4);
    uint32_t words = (uint32_t)(count / width);
    if (!words) return count;
    uint8_t *a = bytes + width * mutate_below(random, words), kept[8];
    uint8_t *b = bytes + width * mutate_below(random, words);
    memcpy(kept, a, width);
    switch (mutate_below(random, 5)) {
    case 0: memcpy(a, &extremes[mutate_below(random, sizeof extremes / sizeof *extremes)], width);
        return count;
    case 1:
        memcpy(a, b, width);
        memcpy(b, kept, width);
        return count;
    case 2:
        memmove(a, a + width, (size_t)(bytes + count - a) - width);
        return count - width;
    case 3:
        if (count + width > capacity) return count;
        memmove(a + width, a, (size_t)(bytes + count - a));
        return count + width;
    default:
        if (other_count < width) return count;
        memcpy(a, other + width * mutate_below(random, (uint32_t)(other_count / width)), width);
        return count;
    }
}

size_t mutate_structure(uint8_t *bytes, size_t count, size_t capacity, const uint8_t *other,
                        size_t other_count, uint64_t *random)
{
    static tokens own, others;
    if (!split(bytes, count, &own))
        return mutate_words(bytes, count, capacity, other, other_count, random);
    if (!other_count || !split(other, other_count, &others)) others.count = 0;
    return mutate_text(&own, &others, bytes, capacity, random);
}

// --- libFuzzer's hooks. The other input is one that it gave earlier.

#ifdef FUZZ_LIBFUZZER
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t count, size_t capacity);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t count, size_t capacity, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t count, size_t capacity, unsigned seed)
{
    enum { KEPT = 64, MOST_KEPT_BYTES = 1 << 14 };
    static struct {
        uint8_t bytes[MOST_KEPT_BYTES];
        size_t count;
    } earlier[KEPT];
    uint64_t random = (uint64_t)seed << 16 | 1;
    for (int i = 0; i < 4; i++) mutate_below(&random, 2);
    uint32_t source = mutate_below(&random, KEPT), place = mutate_below(&random, KEPT);
    size_t made = mutate_below(&random, 3) == 0
                      ? LLVMFuzzerMutate(bytes, count, capacity)
                      : mutate_structure(bytes, count, capacity, earlier[source].bytes,
                                         earlier[source].count, &random);
    if (made <= MOST_KEPT_BYTES && mutate_below(&random, 16) == 0) {
        memcpy(earlier[place].bytes, bytes, made);
        earlier[place].count = made;
    }
    return made;
}
#endif
