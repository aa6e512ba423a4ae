/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prom_error.h - why a call failed; an addition to the interface of prometheus-client-c, which
 * wrote such messages to the standard output, or ended the program.
 */
#ifndef PROM_ERROR_H
#define PROM_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/* One line about the last call on this thread that failed: what was seen, and what is allowed. ""
 * if none has failed. Valid until the next call that fails on this thread. */
const char *prom_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
