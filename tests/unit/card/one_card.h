// SPDX-License-Identifier: Apache-2.0
//
// A card for all tests of a group: open_card and close_card are the group's setup and teardown.
#ifndef TESTS_ONE_CARD_H
#define TESTS_ONE_CARD_H

#include "unit/check.h"

#include "card/card.h"

static card *the_card;

static int open_card(void **state)
{
    (void)state;
    assert_ok(card_create(&the_card));
    return 0;
}

static int close_card(void **state)
{
    (void)state;
    card_destroy(the_card);
    return 0;
}

#endif
