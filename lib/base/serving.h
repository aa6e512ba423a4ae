/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serving.h - threads that serve others, which may therefore not wait for a disk; and those that
 * give way to them.
 *
 * A thread that runs a loop for many says so once; what can block asserts that it is not called
 * there. So a blocking call that strays onto such a thread ends the first test that reaches it.
 */
#ifndef BASE_SERVING_H
#define BASE_SERVING_H

#include <stdbool.h>

/* The calling thread, until it ends. */
void base_thread_serves(void);
bool base_thread_is_serving(void);

/* The calling thread, until it ends: it gets a tenth of what a loop gets where both want the same
   processor, and does not take one from a loop by waking up. Best effort: where it is not allowed,
   the work is only less polite. */
void base_thread_gives_way(void);

#endif
