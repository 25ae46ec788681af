// SPDX-License-Identifier: Apache-2.0
//
// spyre_compile(): by way of the cache, or a compilation and its dump.
#include "compile/cache/cache.h"
#include "compile/executable.h"
#include "front/front.h"

spyre_compile_options spyre_compile_options_default(void)
{
    return (spyre_compile_options){.settings = spyre_settings_default(), .host_fallback = true};
}

spyre_status spyre_compile_check_settings(const spyre_settings *settings)
{
    TRY(spyre_settings_check(settings));
    return front_check_skips(settings->skip_passes);
}

spyre_status spyre_compile(const spyre_graph *graph, const spyre_compile_options *options,
                           spyre_executable **out_executable)
{
    const spyre_compile_options standard = spyre_compile_options_default();
    if (!options) options = &standard;
    // A dump is of a compilation, so there has to be one.
    if (options->cache && !options->dump_dir && !options->loop_pass)
        return cache_compile(graph, options, out_executable);
    TRY(executable_compile(graph, options, out_executable));
    if (!options->dump_dir) return NULL;
    spyre_status status = executable_dump(*out_executable, options->dump_dir);
    if (!status) return NULL;
    spyre_executable_destroy(*out_executable);
    *out_executable = NULL;
    return status;
}
