// SPDX-License-Identifier: Apache-2.0
//
// Saves one launch of the process as a file (launch_record_file.h): the one of number
// SPYRE_RECORD_LAUNCH, counted from 0, to the path SPYRE_RECORD.
#ifndef RUNTIME_LAUNCH_RECORDER_H
#define RUNTIME_LAUNCH_RECORDER_H

#include "card/card.h"

typedef struct recording recording;

// True when some launch of the process is to be saved, as the first that asks finds.
bool recorder_is_on(void);

// Counts a launch. Null where it is not wanted; else to be handed on.
recording *recorder_begin(const isa_program *program, const char *name, bool forgets_lx);

// An argument of the launch, in order. `kept`: what it holds behind the launch means something.
void recorder_window(recording *r, const card_argument *argument, bool kept);

// Around the launch. A failure is a warning, and the launch goes on.
void recorder_before(recording *r, card *c);
void recorder_after(recording *r, card *c, bool faulted);   // writes the file

void recorder_drop(recording *r);           // frees it; null is allowed

#endif
