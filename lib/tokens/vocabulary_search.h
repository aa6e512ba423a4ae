/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vocabulary_search.h - where vocabularies are, unless configured.
 *
 * The prefix given to configure may differ from the one installed to, and a program in a build tree
 * is not installed at all. So the search starts from the running program: relative to the program,
 * as installed and as built, then relative to the shared library, for programs that embed it, and
 * last in the configured prefix. Any thread.
 */
#ifndef HANDOFF_TOKENS_VOCABULARY_SEARCH_H
#define HANDOFF_TOKENS_VOCABULARY_SEARCH_H

#include <stddef.h>

/*
 * Writes the path of the encoding's vocabulary file: the first readable one, else the one in the
 * configured prefix. Returns its length as snprintf() does: a length of size or more did not fit.
 */
int handoff_vocabulary_search(const char *encoding, char *path, size_t size);

#endif
