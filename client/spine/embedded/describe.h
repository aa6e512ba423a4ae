/* SPDX-License-Identifier: Apache-2.0 */
/*
 * describe.h - a memory as a document of the index.
 *
 * A word in the summary counts twice and in a tag three times, since somebody chose it to say what
 * the memory is about.
 */
#ifndef HANDOFF_SPINE_EMBEDDED_DESCRIBE_H
#define HANDOFF_SPINE_EMBEDDED_DESCRIBE_H

#include "client/spine/spine.h"
#include "lib/words/document.h"

enum { HANDOFF_CONTENT_WEIGHT = 1, HANDOFF_SUMMARY_WEIGHT = 2, HANDOFF_TAG_WEIGHT = 3 };

/* The document is used again for one memory after the other, by one thread; the flags are those of
   words_begin. False: out of memory. */
bool handoff_memory_describe(const struct handoff_memory *memory, unsigned flags,
                             struct words_document *document);

/* An agent's or a task's name as the index keeps it; 0 for none. */
uint32_t handoff_name_hash(struct base_span name);

#endif
