/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - filling in a struct handoff_error (declared in handoff.h).
 *
 * Every function that can fail takes a `struct handoff_error *` that may be NULL, and returns the
 * code. The setters return the code they set, so that failing is one statement:
 *
 *     return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no memory has this id", "id", id);
 */
#ifndef HANDOFF_BASE_ERROR_H
#define HANDOFF_BASE_ERROR_H

#include "lib/base/handoff_error.h"

/* No error: all fields empty. Returns HANDOFF_OK. */
enum handoff_code handoff_error_clear(struct handoff_error *error);

/* message is constant text and must outlive the error. field and seen may be NULL. */
enum handoff_code handoff_error_set(struct handoff_error *error, enum handoff_code code,
                                    const char *message, const char *field, const char *seen);

/* Adds what would have been allowed. */
void handoff_error_allow(struct handoff_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Replaces field or seen by formatted text. */
void handoff_error_field(struct handoff_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void handoff_error_seen(struct handoff_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Shorthand for the most frequent one. Returns HANDOFF_ERR_OUT_OF_MEMORY. */
enum handoff_code handoff_error_no_memory(struct handoff_error *error);

#endif
