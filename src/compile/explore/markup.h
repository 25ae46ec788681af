// SPDX-License-Identifier: Apache-2.0
//
// Text inside XML and HTML. Internal to src/compile.
#ifndef COMPILE_MARKUP_H
#define COMPILE_MARKUP_H

#include "base/text.h"

// Appends text so that it stands for itself between tags and inside quoted attributes: the five
// marks become entities; bytes that are no UTF-8, and characters that XML 1.0 (section 2.2) does
// not allow, become U+FFFD.
void markup_append(text *out, const char *string);

#endif
