// SPDX-License-Identifier: Apache-2.0
//
// How the library reads a variable of the environment.
#ifndef BASE_VARIABLE_H
#define BASE_VARIABLE_H

// The text of a variable; null when it is unset or empty, which mean the same: compose files and
// service managers set what they have no value for to "".
const char *variable_text(const char *name);

#endif
