// SPDX-License-Identifier: Apache-2.0
//
// The messages of a kernel as one map from the LX of receivers to that of senders.
#ifndef CARD_MESSAGE_MAP_H
#define CARD_MESSAGE_MAP_H

#include "card/machine/messages.h"
#include "card/row_fusion/row_tile.h"

enum { ROWS_MESSAGE_LEVELS = ISA_MAX_DIMS + 6 };

// Index i has a digit for each level, by rising `to`; its element goes from the sum of digits times
// `from` to that of digits times `to`, both from LX of core 0 on.
struct rows_messages {
    spyre_format format;
    uint32_t levels;
    struct {
        int64_t extent, to, from;
    } level[ROWS_MESSAGE_LEVELS];
    int64_t to, from;
    byte_range received, sent;              // of one core's LX
    uint32_t kernel;                        // which, from the first of the search on
    bool stale;                             // something else lies where they came from
};

// False when the messages of a kernel do not make one map.
SPYRE_MUST_CHECK spyre_status rows_map_messages(arena *scratch, const message_copies *copies,
                                                rows_messages *out, bool *out_good);

// The map from senders to receivers; false when it does not go back.
bool rows_messages_turn(const rows_messages *m, rows_messages *out);

// Where what lies `offset` bytes behind the receivers' LX came from.
bool rows_messages_offset(const rows_messages *m, int64_t offset, int64_t *out);

// Pieces of a level of the receivers, as it lies with the senders: adds them to `out`.
bool rows_messages_level(const rows_messages *m, int64_t extent, int64_t stride,
                         nested_strides *out);

// The same of a place: its rows, sticks and runs of lanes, all of which were received.
bool rows_messages_place(const rows_messages *m, int64_t lanes, int64_t lane, rows_place *place);

// The bytes of one core's LX that have what operand o touches.
static inline byte_range rows_reach(const rows_tile *t, uint32_t o)
{
    return t->sent[o] ? t->sent[o]->sent : t->reach[o];
}

#endif
