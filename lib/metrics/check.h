/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions of this room. They stay on in every build, and state only what our own code or the
 * program that calls us must hold; nothing that arrives from outside may trip one. */
#ifndef METRIC_CHECK_H
#define METRIC_CHECK_H

_Noreturn void metric_check_failed(const char *condition, const char *file, int line);

#define METRIC_CHECK(condition)                                                                    \
    (__builtin_expect(!!(condition), 1) ? (void)0                                                  \
                                        : metric_check_failed(#condition, __FILE__, __LINE__))

#endif
