/* SPDX-License-Identifier: Apache-2.0 */
/*
 * descriptors.h - who may have how many of the process's file descriptors.
 *
 * Agents that poll must not take those that deliveries, scrapes and the store need: so each has a
 * share, and what is short is short only there. Pure, but for reading the limit.
 */
#ifndef EXPORTER_HTTP_DESCRIPTORS_H
#define EXPORTER_HTTP_DESCRIPTORS_H

#include <stdbool.h>
#include <stddef.h>

struct exporter_descriptors {
    unsigned long limit;
    /* connections, at most */
    unsigned web, api, deliveries;
    bool is_short; /* web or api have fewer than they would have without a limit */
};

/* Raises the soft limit to the hard one; the usual soft limit of 1,024 is there for select(2).
 * Gives the limit that is then in force. Before the threads start. */
unsigned long exporter_descriptors_raise(void);

/* The shares of a process with so many loops. */
struct exporter_descriptors exporter_descriptors_share(unsigned long limit, size_t loops);

#endif
