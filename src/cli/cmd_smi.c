// SPDX-License-Identifier: Apache-2.0
//
// A monitor of cards: reads their metrics files again and again, a row a card and sample.
#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "smi.h"
#include "spyre/version.h"

enum { MOST_CARDS = 64, PATH_BYTES = 512, VARIABLE_BYTES = 1024 };

typedef struct {
    char path[PATH_BYTES];
    spyre_metrics last;
    int64_t read_ns;
} seen_card;

typedef struct {
    const char *place;              // of the options that are being read, for complaints
    char groups[16];
    const char *pattern, *file;
    double delay_s;
    long count;                     // 0: without end
    bool csv, version, details;
    bool wanted[MOST_CARDS], any_wanted;
} options;

typedef struct {
    FILE *to;
    smi_host host;
    double host_cpu;
    long rows;
    spyre_status trouble;           // with the last file that could not be read
    seen_card cards[MOST_CARDS];
} state;

// --- Options

static bool read_number(const char *text, double least, double most, double *out)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least && value <= most)) return false;
    *out = value;
    return true;
}

static void add_group(options *o, char letter)
{
    size_t count = strlen(o->groups);
    if (strchr(o->groups, letter)) return;
    o->groups[count] = letter;
    o->groups[count + 1] = '\0';
}

static int set_groups(options *o, const char *letters)
{
    o->groups[0] = '\0';
    for (const char *c = letters; *c; c++) {
        if (*c == ',') continue;
        if (!smi_is_group(*c))
            return cli_complain(o->place, "-g %s: group '%c' is none of D, R, M, U, P, S, A",
                                letters, *c);
        add_group(o, *c);
    }
    return CLI_OK;
}

static int set_cards(options *o, const char *list)
{
    memset(o->wanted, 0, sizeof o->wanted);
    for (const char *at = list;; at++) {
        char *end;
        long id = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || id < 0 || id >= MOST_CARDS)
            return cli_complain(o->place, "-i %s: expected numbers of cards, 0 to %d", list,
                                MOST_CARDS - 1);
        o->wanted[id] = o->any_wanted = true;
        if (!*end) return CLI_OK;
        at = end;
    }
}

static bool takes(cli_arguments *in, const char *name, const char *long_name, const char **value)
{
    return cli_option(in, name, value) || (!in->failed && cli_option(in, long_name, value));
}

static bool is(cli_arguments *in, const char *name, const char *long_name)
{
    return cli_flag(in, name) || cli_flag(in, long_name);
}

static int set_pattern(cli_arguments *in, options *o)
{
    const char *pattern = in->items[in->at];
    if (o->pattern || *pattern == '-') return cli_unexpected(in);
    if (strlen(pattern) >= PATH_BYTES)
        return cli_complain(o->place, "a path of %zu characters: at most %d", strlen(pattern),
                            PATH_BYTES - 1);
    o->pattern = pattern;
    in->at++;
    return CLI_OK;
}

static int read_one(cli_arguments *in, options *o)
{
    const char *value;
    double number;
    if (is(in, "-s", "--csv")) o->csv = true;
    else if (is(in, "-v", "--version")) o->version = true;
    else if (cli_flag(in, "--mem-details")) o->details = true;
    else if (takes(in, "-g", "--metric-groups", &value)) return set_groups(o, value);
    else if (takes(in, "-i", "--id", &value)) return set_cards(o, value);
    else if (takes(in, "-f", "--filename", &value)) o->file = value;
    else if (takes(in, "-d", "--delay", &value)) {
        if (!read_number(value, 0.01, 86400, &o->delay_s))
            return cli_complain(o->place, "-d %s: expected seconds, 0.01 to 86400", value);
    } else if (takes(in, "-c", "--count", &value)) {
        if (!read_number(value, 1, 1e9, &number) || number != (double)(long)number)
            return cli_complain(o->place, "-c %s: expected a number of samples, 1 or more", value);
        o->count = (long)number;
    } else if (cli_option(in, "--idle-power", &value)) {
        if (!read_number(value, 0, 1000, &number))
            return cli_complain(o->place, "--idle-power %s: expected watts, 0 to 1000", value);
    } else if (cli_option(in, "--llm-type", &value)) return CLI_OK;
    else if (in->failed) return CLI_BAD_INPUT;
    else return set_pattern(in, o);
    return CLI_OK;
}

static int read_all(int count, char **arguments, options *o)
{
    cli_arguments in = {.command = o->place, .count = count, .items = arguments};
    const char *pattern = o->pattern;
    o->pattern = NULL;
    o->details = false;
    while (in.at < in.count) {
        int code = read_one(&in, o);
        if (code != CLI_OK) return code;
    }
    if (!o->pattern) o->pattern = pattern;
    if (o->details) {
        add_group(o, 'M');
        add_group(o, 'S');
    }
    return CLI_OK;
}

// Cuts a text into words at white space that does not stand between quotes of either kind, which
// are taken off; false when one is left open. There is at most a word for every two characters.
static bool split(char *text, char **out_words, int *out_count)
{
    char *to = text, quote = '\0';
    bool inside = false;
    *out_count = 0;
    for (const char *from = text; *from; from++) {
        char c = *from;
        if (!quote && isspace((unsigned char)c)) {
            if (inside) *to++ = '\0';
            inside = false;
            continue;
        }
        if (!inside) out_words[(*out_count)++] = to;
        inside = true;
        if (c == quote) quote = '\0';
        else if (!quote && (c == '"' || c == '\'')) quote = c;
        else *to++ = c;
    }
    *to = '\0';
    return !quote;
}

static int read_variable(options *o)
{
    static char text[VARIABLE_BYTES];       // options point into it
    char *words[VARIABLE_BYTES / 2];
    int count;
    const char *given = getenv("AIUSMI_OPTS");
    if (!given) return CLI_OK;
    if (strlen(given) >= sizeof text)
        return cli_complain("smi", "AIUSMI_OPTS has %zu characters: at most %zu", strlen(given),
                            sizeof text - 1);
    strcpy(text, given);
    if (!split(text, words, &count))
        return cli_complain("smi", "AIUSMI_OPTS=%s: a quote is left open", given);
    o->place = "smi: AIUSMI_OPTS";
    return read_all(count, words, o);
}

// What AIUSMI_OPTS says comes first, so that arguments take precedence.
static int read_options(int count, char **arguments, options *o)
{
    int code = read_variable(o);
    if (code != CLI_OK) return code;
    o->place = "smi";
    bool named = count > 0 && strcmp(arguments[0], "dmon") == 0;
    return read_all(count - named, arguments + named, o);
}

// --- Samples

// The pattern with a star for "%BUSID"; what else glob(3) takes for special stands for itself.
static void make_glob(const char *pattern, char out[2 * PATH_BYTES])
{
    size_t at = 0;
    while (*pattern) {
        if (strncmp(pattern, "%BUSID", 6) == 0) {
            out[at++] = '*';
            pattern += 6;
            continue;
        }
        if (strchr("*?[\\", *pattern)) out[at++] = '\\';
        out[at++] = *pattern++;
    }
    out[at] = '\0';
}

static seen_card *find_card(state *s, const char *path)
{
    if (strlen(path) >= PATH_BYTES) return NULL;
    for (int n = 0; n < MOST_CARDS; n++)
        if (!*s->cards[n].path || strcmp(s->cards[n].path, path) == 0) return &s->cards[n];
    return NULL;
}

// Prints the row of a card that was there at the sample before.
static void sample_card(state *s, const options *o, seen_card *card, const char *path)
{
    spyre_metrics now;
    spyre_status status = spyre_metrics_read(path, &now);
    if (status) {                   // another file, or one that is being made
        spyre_status_free(s->trouble);
        s->trouble = status;
        return;
    }
    int64_t now_ns = smi_now_ns();
    // When another process has opened the card, its counts began anew.
    bool known = *card->path && card->last.process == now.process &&
                 card->last.opened_ns == now.opened_ns;
    if (known && now.card < MOST_CARDS && (!o->any_wanted || o->wanted[now.card])) {
        smi_interval i = {.before = &card->last,
                          .now = &now,
                          .now_ns = now_ns,
                          .wall_us = (double)(now_ns - card->read_ns) * 1e-3,
                          .host_cpu = s->host_cpu,
                          .host_memory = smi_host_memory(),
                          .alive = smi_process_lives(now.process)};
        if (s->rows++ == 0) smi_print_header(s->to, o->groups, o->csv);
        smi_print_row(s->to, o->groups, o->csv, now.card, &i);
    }
    snprintf(card->path, sizeof card->path, "%s", path);
    card->last = now;
    card->read_ns = now_ns;
}

static void sample(state *s, const options *o)
{
    char pattern[2 * PATH_BYTES];
    glob_t found;
    s->host_cpu = smi_host_cpu(&s->host);
    make_glob(o->pattern, pattern);
    if (glob(pattern, 0, NULL, &found) != 0) return;
    for (size_t n = 0; n < found.gl_pathc; n++) {
        seen_card *card = find_card(s, found.gl_pathv[n]);
        if (card) sample_card(s, o, card, found.gl_pathv[n]);
    }
    globfree(&found);
}

static void wait_s(double seconds)
{
    struct timespec rest = {.tv_sec = (time_t)seconds};
    rest.tv_nsec = (long)((seconds - (double)rest.tv_sec) * 1e9);
    nanosleep(&rest, NULL);
}

static int complain_of_output(const options *o)
{
    cli_complain("smi", "%s cannot be written", o->file ? o->file : "standard output");
    return o->file ? CLI_BAD_INPUT : CLI_FAILED;
}

static int complain_of_no_card(const options *o, spyre_status trouble)
{
    if (trouble)
        return cli_complain("smi", "no card reported in %s: %s", o->pattern,
                            spyre_status_message(trouble));
    return cli_complain("smi", "no card reported in %s: programs do when SENLIB_DEVEL_CONFIG_FILE "
                        "names a configuration", o->pattern);
}

static int monitor(const options *o, FILE *to)
{
    static state s;
    s.to = to;
    sample(&s, o);
    for (long n = 0; o->count == 0 || n < o->count; n++) {
        wait_s(o->delay_s);
        sample(&s, o);
        if (ferror(to)) return complain_of_output(o);
        // One without end says it once, since a card may come later.
        if (n == 0 && s.rows == 0 && o->count == 0) complain_of_no_card(o, s.trouble);
    }
    int code = s.rows ? CLI_OK : complain_of_no_card(o, s.trouble);
    spyre_status_free(s.trouble);
    return code;
}

int cmd_smi(int count, char **arguments)
{
    options o = {.groups = "D", .pattern = SPYRE_METRICS_PATH, .delay_s = 1};
    int code = read_options(count, arguments, &o);
    if (code != CLI_OK) return code;
    if (o.version) return cli_print("smi", "aiu-smi " SPYRE_VERSION "\n");
    FILE *to = o.file ? fopen(o.file, "w") : stdout;
    if (!to) return cli_complain("smi", "%s cannot be written: %s", o.file, strerror(errno));
    code = monitor(&o, to);
    if (o.file && fclose(to) != 0 && code == CLI_OK) return complain_of_output(&o);
    return code;
}
