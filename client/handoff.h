/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoff.h - the embedded handoff client.
 *
 * The one public header of client/. A host program (our daemon, or any C program) assembles
 * envelopes, stores and delivers them through it. The library never prints and never exits;
 * expected failures come back as values.
 */
#ifndef HANDOFF_H
#define HANDOFF_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library, "MAJOR.MINOR.PATCH". The string is static. */
const char *handoff_version(void);

#ifdef __cplusplus
}
#endif

#endif
