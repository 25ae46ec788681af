// SPDX-License-Identifier: Apache-2.0
//
// spyre_compile(): by way of the cache, or a compilation and its dump.
#include "compile/cache/cache.h"
#include "compile/executable.h"

spyre_compile_options spyre_compile_options_default(void)
{
    return (spyre_compile_options){.settings = spyre_settings_default(), .host_fallback = true};
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
