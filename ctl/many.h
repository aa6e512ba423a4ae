/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many.h - calls of the API that are made at the same time, over connections that are kept: one for
 * each memory of a file. One thread.
 *
 *     while (there are more, or ctl_many_open(many) > 0) {
 *         if (there are more && ctl_many_has_room(many))
 *             ctl_many_add(many, &call, tag);
 *         else
 *             code = ctl_many_next(many, &tag, &answer);
 *     }
 */
#ifndef CTL_MANY_H
#define CTL_MANY_H

#include "ctl/api.h"

struct ctl_many;

/* NULL, after stderr said why. */
struct ctl_many *ctl_many_begin(const struct ctl_line *line, unsigned at_once);
/* Abandons what is open. Takes NULL. */
void ctl_many_end(struct ctl_many *many);

bool ctl_many_has_room(const struct ctl_many *many);
unsigned ctl_many_open(const struct ctl_many *many);

/* There must be room. The call is lent until it has ended. false: no memory. */
bool ctl_many_add(struct ctl_many *many, const struct ctl_call *call, void *tag);

/* Waits until one has ended; at least one is open. CTL_OK: there is an answer, whatever its status;
   CTL_UNREACHABLE: there is none, as `why` says. The answer is the caller's to free. */
int ctl_many_next(struct ctl_many *many, void **tag, struct ctl_answer *answer, const char **why);

#endif
