/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vocabulary_search.h - where vocabularies are, if nobody says.
 *
 * Story: the prefix that a tree is configured with need not be the one that it is installed to, and
 * a program in a build tree is not installed at all. So they are looked for from where we run:
 * beside the program, as it is installed and as it is built, then beside the shared library, for
 * programs that embed it, and only then where the configuration said.
 */
#ifndef HANDOFF_TOKENS_VOCABULARY_SEARCH_H
#define HANDOFF_TOKENS_VOCABULARY_SEARCH_H

#include <stddef.h>

/*
 * Writes the path of the encoding's vocabulary file, the first that is there; where none is, that
 * of the configuration. Returns its length as snprintf() does: from size on it did not fit.
 */
int handoff_vocabulary_search(const char *encoding, char *path, size_t size);

#endif
