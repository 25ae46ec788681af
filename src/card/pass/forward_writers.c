// SPDX-License-Identifier: Apache-2.0
//
// Who wrote what a read in LX finds, and who needs what a write leaves there.
#include "card/pass/forward.h"

const lx_access *forward_writer_of(const forwarding *f, uint32_t n)
{
    const lx_access *read = &f->accesses.items[n], *found = NULL;
    for (uint32_t w = n; w-- > 0 && !found;) {
        const lx_access *write = &f->accesses.items[w];
        if (!write->writes || write->at == read->at) continue;
        if (lx_overlap(write, read, lx_shared_loops(write, read))) found = write;
    }
    if (!found || !lx_spans(found, read)) return NULL;
    uint32_t shared = lx_shared_loops(found, read);
    if (shared != found->depth) return NULL;
    for (uint32_t w = 0; w < f->accesses.count; w++) {
        const lx_access *write = &f->accesses.items[w];
        if (write->writes && write != found && lx_shared_loops(write, read) > shared &&
            lx_overlap(write, read, shared))
            return NULL;
    }
    return found;
}

// A later kernel may read it. Those of a loop around kernels follow each other in a ring.
static bool is_left(const forwarding *f, const lx_access *write)
{
    if (!lx_is_live(write, f->exposed)) return false;
    return f->kernel->around.depth || lx_is_read_soon(f->lx, f->kernel->order, write);
}

bool forward_is_needed(const forwarding *f, const lx_access *write, const lx_access *but)
{
    if (is_left(f, write)) return true;
    for (uint32_t n = 0; n < f->accesses.count; n++) {
        const lx_access *read = &f->accesses.items[n];
        if (!read->reads || read == but || f->replaced[n] || !lx_overlap(write, read, 0)) continue;
        bool hidden = false;
        for (uint32_t w = 0; w < f->accesses.count && !hidden; w++) {
            const lx_access *other = &f->accesses.items[w];
            if (!other->writes || other->at >= read->at || other->at == write->at) continue;
            bool between = other->at < write->at && write->at < read->at;
            hidden = !between && lx_covers(other, read);
        }
        if (!hidden) return true;
    }
    return false;
}
