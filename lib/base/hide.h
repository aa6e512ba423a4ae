/* SPDX-License-Identifier: Apache-2.0 */
/* hide.h - keeps a credential that a peer repeats out of what is stored and shown. */
#ifndef BASE_HIDE_H
#define BASE_HIDE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the bytes have the credential. One of less than 8 bytes is none, and may be anywhere. */
bool base_has_credential(const char *data, size_t size, const char *credential);

/* Overwrites each place where it is with asterisks. */
void base_hide_credential(char *data, size_t size, const char *credential);

#endif
