// SPDX-License-Identifier: Apache-2.0
//
// The version of OpenSpyre, named here and read by the build, the Python package and the command.
// The first two numbers are the soname of the library: a third that differs keeps the interface.
#ifndef SPYRE_VERSION_H
#define SPYRE_VERSION_H

#include "spyre/status.h"

#define SPYRE_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

// That of the library in use, a static string; SPYRE_VERSION is that of the headers.
SPYRE_API const char *spyre_version(void);

#ifdef __cplusplus
}
#endif
#endif
