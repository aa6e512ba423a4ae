/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find.h - credentials in a text: private keys, tokens that have a known form, passwords in URLs.
 *
 * forms.def says what each looks like. A text is read once, from its first byte to its last; what
 * holds no credential is passed over sixteen bytes at a time. A text of fewer than 16 bytes is
 * taken to hold none.
 *
 *     struct handoff_secret_search search = handoff_secret_search(text, before);
 *     struct handoff_secret_found found;
 *     while (handoff_secret_next(&search, &found))
 *         ...
 *
 * Pure; any thread.
 */
#ifndef HANDOFF_SECRETS_FIND_H
#define HANDOFF_SECRETS_FIND_H

#include <stdbool.h>
#include <stddef.h>

#include "client/model/handoff_model.h"
#include "lib/base/span.h"

enum {
    HANDOFF_SECRET_SHORTEST = 16, /* bytes of a text that is searched */
    HANDOFF_SECRET_RUNS = 11,     /* the alphabets of forms.def, and the parts of a JWT */
};

/* Where a search is. */
struct handoff_secret_search {
    struct base_span text;
    struct base_span before; /* what names the text: the key of a member; absent: nothing does */
    size_t at;               /* what is before was searched */
    /* runs that were measured, [begin, end): a long one that has many beginnings is not measured
       again for each */
    struct handoff_secret_run {
        size_t begin, end;
    } runs[HANDOFF_SECRET_RUNS];
};

struct handoff_secret_found {
    enum handoff_secret kind;
    size_t at, size; /* in the text */
};

static inline struct handoff_secret_search handoff_secret_search(struct base_span text,
                                                                 struct base_span before)
{
    return (struct handoff_secret_search){.text = text, .before = before};
}

/* Whether a text may hold one, at or after `from`; `at` is then not past it. The first look, which
 * most texts do not survive. */
bool handoff_secret_suspect(struct base_span text, size_t from, size_t *at);

/* The next one; false: there is none. They do not overlap. */
bool handoff_secret_next(struct handoff_secret_search *search, struct handoff_secret_found *found);

#endif
