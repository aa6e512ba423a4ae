/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same.h - when two entries of a list say the same.
 *
 * Agents repeat what they were given. Entries are the same if they are equal as JSON, but for white
 * space around a text. A step is the same without its reason too: an envelope may have left that
 * out.
 *
 * Pure, any thread.
 */
#ifndef HANDOFF_LEDGER_SAME_H
#define HANDOFF_LEDGER_SAME_H

#include <stdbool.h>
#include <stdint.h>
#include <yyjson.h>

#include "lib/base/span.h"

/* The same entries have the same hash, in one process. */
uint64_t handoff_hash_text(struct base_span text);
uint64_t handoff_hash_entry(yyjson_val *entry);
uint64_t handoff_hash_step(yyjson_val *step);
uint64_t handoff_hash_more(uint64_t hash, uint64_t word);

bool handoff_same_entry(yyjson_val *one, yyjson_val *other);
/* Whether `later` says nothing that `earlier` does not. */
bool handoff_same_step(yyjson_val *earlier, yyjson_val *later);

/* Without white space at both ends, as Unicode has it. */
struct base_span handoff_trim_text(struct base_span text);

#endif
