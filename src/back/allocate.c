// SPDX-License-Identifier: Apache-2.0
#include "back/allocate.h"

int64_t lx_share_start(const back_options *options)
{
    int64_t reserved = options->lx_reserved_bytes;
    if (reserved < 0) reserved = 0;
    if (reserved > ISA_LX_BYTES) reserved = ISA_LX_BYTES;
    return lx_align(ISA_LX_BYTES - reserved);
}

int64_t lx_share_bytes(const back_options *options)
{
    return ISA_LX_BYTES - lx_share_start(options);
}

lx_share lx_share_whole(const back_options *options)
{
    return (lx_share){lx_share_start(options)};
}

spyre_status lx_share_largest(const bundle *b, const back_options *options, lx_share *out_share)
{
    int64_t end = 0;
    *out_share = lx_share_whole(options);
    if (!options->lx_borrows) return NULL;
    for (uint32_t s = 0; s < b->steps.count; s++) {
        const bundle_step *step = &b->steps.items[s];
        for (uint32_t t = 0; t < step->tensor_count; t++) {
            const bundle_tensor *tensor = &step->tensors[t];
            bundle_geometry geometry;
            if (!tensor->in_lx) continue;
            TRY(bundle_tensor_geometry(b, step, t, &geometry));
            for (uint32_t core = 0; core < step->cores->core_count; core++)
                if (bundle_start(tensor, core) + geometry.bytes > end)
                    end = bundle_start(tensor, core) + geometry.bytes;
        }
    }
    if (lx_align(end) < out_share->next) out_share->next = lx_align(end);
    return NULL;
}

spyre_status lx_take(lx_share *share, int64_t bytes, bool doubled, lx_region *out_region)
{
    bytes = lx_align(bytes);
    *out_region = (lx_region){share->next, bytes, doubled};
    share->next += doubled ? 2 * bytes : bytes;
    if (share->next > ISA_LX_BYTES)
        return status_new(SPYRE_INTERNAL, "the tiles end at byte %lld of LX, which has %d",
                          (long long)share->next, ISA_LX_BYTES);
    return NULL;
}

spyre_status lx_check_step(const bundle *b, const bundle_step *step, const back_options *options)
{
    int64_t limit = lx_share_start(options);
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        const bundle_tensor *tensor = &step->tensors[t];
        if (!tensor->in_lx) continue;
        bundle_geometry geometry;
        TRY(bundle_tensor_geometry(b, step, t, &geometry));
        int64_t end = tensor->start + geometry.bytes;
        if (end > limit)
            return status_new(SPYRE_UNSUPPORTED,
                              "%s ends at byte %lld of LX, of which the back-end needs those from "
                              "%lld on",
                              tensor->name, (long long)end, (long long)limit);
    }
    return NULL;
}
