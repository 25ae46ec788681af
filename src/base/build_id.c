// SPDX-License-Identifier: Apache-2.0
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             // dl_iterate_phdr
#endif
#include "base/build_id.h"

#include <link.h>
#include <stdbool.h>
#include <string.h>

typedef struct {
    const uint8_t *bytes;
    size_t length;
} found_id;

// A note is a header, a name and a description, each padded to four bytes (System V ABI, section
// Note Section).
static void search_notes(const uint8_t *notes, size_t bytes, found_id *out)
{
    static const char owner[] = "GNU";
    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, notes, sizeof note);
        size_t name = (note.n_namesz + 3u) & ~(size_t)3;
        size_t content = (note.n_descsz + 3u) & ~(size_t)3;
        if (name + content > bytes - sizeof note) return;
        const uint8_t *at = notes + sizeof note;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof owner &&
            memcmp(at, owner, sizeof owner) == 0)
            *out = (found_id){at + name, note.n_descsz};
        notes = at + name + content;
        bytes -= sizeof note + name + content;
    }
}

static int search_object(struct dl_phdr_info *object, size_t size, void *result)
{
    (void)size;
    static const char here;
    uintptr_t address = (uintptr_t)&here;
    bool ours = false;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + part->p_vaddr;
        ours |= part->p_type == PT_LOAD && address >= start && address - start < part->p_memsz;
    }
    for (int i = 0; ours && i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_NOTE)
            search_notes((const uint8_t *)(object->dlpi_addr + part->p_vaddr), part->p_memsz,
                         result);
    }
    return ours;
}

const uint8_t *build_id(size_t *out_length)
{
    found_id found = {0};
    dl_iterate_phdr(search_object, &found);
    *out_length = found.length;
    return found.bytes;
}
