/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find.h - credentials in a text: private keys, tokens that have a known form, passwords in URLs.
 *
 * forms.def says what each looks like. A text is read once, from its first byte to its last; what
 * holds no credential is passed over sixteen bytes at a time. A text of fewer than 16 bytes is
 * taken to hold none.
 *
 *     struct handoff_secret_search search;
 *     struct handoff_secret_found found;
 *     size_t at;
 *     if (handoff_secret_look(text, &at)) {
 *         handoff_secret_begin(&search, text, before, at);
 *         while (handoff_secret_next(&search, &found))
 *             ...
 *     }
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
    size_t suspect;          /* where the next word to be searched is, or begins before */
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

/* The first look, after which most texts are done with. False: the text has none. True: it may have
 * one, and `at` is where a search begins. */
bool handoff_secret_look(struct base_span text, size_t *at);

void handoff_secret_begin(struct handoff_secret_search *search, struct base_span text,
                          struct base_span before, size_t at);

/* The next one; false: there is none. They do not overlap. */
bool handoff_secret_next(struct handoff_secret_search *search, struct handoff_secret_found *found);

#endif
