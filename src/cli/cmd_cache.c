// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "spyre/cache.h"

// UTC, as in "2026-01-31 12:00:00".
static void format_time(int64_t seconds, char *out, size_t capacity)
{
    time_t when = (time_t)seconds;
    struct tm parts;
    if (!gmtime_r(&when, &parts) || !strftime(out, capacity, "%Y-%m-%d %H:%M:%S", &parts))
        snprintf(out, capacity, "?");
}

// File names hold hexadecimal digits and the like only; a problem may hold a path.
static void print_file(const spyre_cache_file *file)
{
    char used[32];
    format_time(file->used_s, used, sizeof used);
    printf("%s  %12lld  %s%s%s\n", used, (long long)file->bytes, file->name,
           file->problem ? "  " : "", file->problem ? file->problem : "");
}

static void print_sums(const spyre_cache_listing *listing)
{
    printf("%u files, %lld of %lld bytes in %s\n", listing->file_count,
           (long long)listing->total_bytes, (long long)listing->limit_bytes, listing->directory);
}

static int show(bool verify, bool with_files)
{
    spyre_cache_listing *listing;
    spyre_status status = spyre_cache_list(verify, &listing);
    if (status) return cli_report("cache", status);
    uint32_t problems = 0;
    for (uint32_t i = 0; i < listing->file_count; i++) {
        problems += listing->files[i].problem != NULL;
        if (with_files || listing->files[i].problem) print_file(&listing->files[i]);
    }
    if (listing->directory) print_sums(listing);
    else puts("the environment turns the cache off: SPYRE_CACHE=0, or no directory is known");
    if (verify) printf("%u unusable\n", problems);
    spyre_cache_listing_free(listing);
    return cli_print("cache", "");
}

static int clear(void)
{
    uint32_t files;
    int64_t bytes;
    spyre_status status = spyre_cache_clear(&files, &bytes);
    if (status) return cli_report("cache", status);
    printf("removed %u files, %lld bytes\n", files, (long long)bytes);
    return cli_print("cache", "");
}

int cmd_cache(int count, char **arguments)
{
    cli_arguments in = {.command = "cache", .count = count, .items = arguments};
    if (count == 0) return cli_complain("cache", "one of list, size, verify, clear is missing");
    in.at = count > 1 ? 1 : 0;
    if (count > 1) return cli_unexpected(&in);
    if (strcmp(arguments[0], "list") == 0) return show(false, true);
    if (strcmp(arguments[0], "size") == 0) return show(false, false);
    if (strcmp(arguments[0], "verify") == 0) return show(true, false);
    if (strcmp(arguments[0], "clear") == 0) return clear();
    return cli_unexpected(&in);
}
