/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - assertions that stay on in every build.
 *
 * BASE_CHECK is for our own bugs and for nothing else: a broken invariant, a pointer that came
 * back wrong. Input, the disk and memory never trip one. It names the place on stderr and aborts,
 * because to go on would mean to acknowledge work on top of a state we do not understand.
 */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

_Noreturn void base_check_failed(const char *what, const char *file, int line);

#define BASE_CHECK(expression)                                                                     \
    (__builtin_expect(!!(expression), 1) ? (void)0                                                 \
                                         : base_check_failed(#expression, __FILE__, __LINE__))

/* A pointer to a long-lived object that came back is of the type it claims to be. NULL faults here.
 */
#define BASE_CHECK_MAGIC(pointer, number) BASE_CHECK((pointer)->magic == (number))

#endif
