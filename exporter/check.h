/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - the daemon's assertion. It stays on in every build: it is for our own bugs, never for
 * input, and a wrong process is worth more stopped at the spot than running on.
 */
#ifndef EXPORTER_CHECK_H
#define EXPORTER_CHECK_H

_Noreturn void exporter_check_failed(const char *condition, const char *file, int line);

#define EXPORTER_CHECK(condition)                                                                  \
    ((condition) ? (void)0 : exporter_check_failed(#condition, __FILE__, __LINE__))

/* The object that a void * leads back to: is it what we think it is? */
#define EXPORTER_CHECK_MAGIC(object, expected)                                                     \
    EXPORTER_CHECK((object) != NULL && (object)->magic == (expected))

#endif
