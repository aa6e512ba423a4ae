/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mailbox.h - completions from other threads, delivered on the loop that asked.
 *
 * Each loop (loop.h) owns one mailbox. A worker thread (the store's writer, say) posts a mail into
 * it; the loop sees base_mailbox_fd() become readable in its epoll and calls
 * base_mailbox_run, which calls each mail's deliver function there. No callback ever runs on a
 * thread that the host does not own. Mails are intrusive: posting allocates nothing and cannot
 * fail.
 */
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H

#include <stdatomic.h>
#include <stddef.h>

#include "lib/base/handoff_error.h"

/* Lies inside the struct that is on its way. Owned by the mailbox from post to deliver. */
struct base_mail {
    struct base_mail *next;
    void (*deliver)(struct base_mail *mail);
};

struct base_mailbox {
    unsigned magic;
    int fd;
    _Atomic(struct base_mail *) newest; /* any thread pushes, the owner takes all */
    struct base_mail *oldest, **end;    /* the owner's: taken, and not yet delivered */
};

enum handoff_code base_mailbox_init(struct base_mailbox *mailbox,
                                    struct handoff_error *error) HANDOFF_MUST_CHECK;

/* An eventfd, readable while there may be mail. Poll it level-triggered; never read it yourself. */
static inline int base_mailbox_fd(const struct base_mailbox *mailbox)
{
    return mailbox->fd;
}

/* Any thread. */
void base_mailbox_post(struct base_mailbox *mailbox, struct base_mail *mail);

/* Any thread: wakes the owner without a mail. */
void base_mailbox_wake(struct base_mailbox *mailbox);

/* The owner: delivers what has arrived, in the order of posting, and returns how many. A mail's
   memory may be released by its own deliver. Mail that arrives meanwhile waits for the next run. */
size_t base_mailbox_run(struct base_mailbox *mailbox);

/* The same for the oldest `at_most`; with more, the descriptor stays readable. */
size_t base_mailbox_run_some(struct base_mailbox *mailbox, size_t at_most);

/* The owner: blocks until there is mail, or timeout_ms passed (-1: for ever), then runs. For
   programs without a loop. */
size_t base_mailbox_wait(struct base_mailbox *mailbox, int timeout_ms);

/* The mailbox must be empty, with nobody left to post. Harmless on a zeroed one. */
void base_mailbox_free(struct base_mailbox *mailbox);

#endif
