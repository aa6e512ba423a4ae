/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presets.h - tables of servers that are known by name, for each kind, with their usual address.
 * That of memory-spine is unverified: of that product only a description is public, which has its
 * ports and the form of its ids, and neither paths nor tools. docs/spines.md has the tables, too.
 */
#ifndef HANDOFF_SPINE_REMOTE_PRESETS_H
#define HANDOFF_SPINE_REMOTE_PRESETS_H

#include "client/handoff.h"

struct handoff_remote_preset {
    const char *url, *table;
};

/* NULL: there is none of this name. Any thread. */
const struct handoff_remote_preset *handoff_remote_preset(enum handoff_spine_preset preset,
                                                          enum handoff_spine_kind kind);

#endif
