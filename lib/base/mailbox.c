/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any thread posts, the owner's delivers.
 *
 * A stack that many push to and one takes whole, which needs a compare-and-swap and an exchange and
 * knows no ABA problem; the taker turns it around to restore the order. The eventfd is written only
 * by the push that finds the stack empty, so a group of a hundred completions wakes its loop once.
 *
 * The owner clears the eventfd before it takes the stack: a push that comes between finds the stack
 * non-empty and does not write, but is then taken with the rest; one that comes after finds it
 * empty and writes. So no mail is ever left behind without a readable descriptor.
 */
#include "lib/base/mailbox.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/error.h"

enum { MAGIC = 0x6d61696cu };

enum handoff_code base_mailbox_init(struct base_mailbox *mailbox, struct handoff_error *error)
{
    mailbox->magic = 0;
    mailbox->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mailbox->fd < 0)
        return handoff_error_set(error, HANDOFF_ERR_OUT_OF_MEMORY,
                                 "out of file descriptors (event loop); raise the open file limit",
                                 "eventfd", strerror(errno));
    atomic_init(&mailbox->newest, NULL);
    mailbox->oldest = NULL;
    mailbox->end = &mailbox->oldest;
    mailbox->magic = MAGIC;
    return HANDOFF_OK;
}

static void write_event(int fd)
{
    const uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof one);
    /* EAGAIN: the counter is full, so the owner is about to wake anyway */
    BASE_CHECK(written == (ssize_t)sizeof one || errno == EAGAIN);
}

void base_mailbox_wake(struct base_mailbox *mailbox)
{
    BASE_CHECK_MAGIC(mailbox, MAGIC);
    write_event(mailbox->fd);
}

void base_mailbox_post(struct base_mailbox *mailbox, struct base_mail *mail)
{
    BASE_CHECK_MAGIC(mailbox, MAGIC);
    int fd = mailbox->fd; /* before the push, after which the owner may be done with it */
    struct base_mail *newest = atomic_load_explicit(&mailbox->newest, memory_order_relaxed);
    do {
        mail->next = newest;
    } while (!atomic_compare_exchange_weak_explicit(&mailbox->newest, &newest, mail,
                                                    memory_order_release, memory_order_relaxed));
    if (!newest)
        write_event(fd);
}

/* Behind those that were taken before, the oldest first. */
static void take_mail(struct base_mailbox *mailbox)
{
    struct base_mail *oldest = NULL;
    struct base_mail *newest =
        atomic_exchange_explicit(&mailbox->newest, NULL, memory_order_acquire);
    struct base_mail **end = newest ? &newest->next : mailbox->end;
    while (newest) {
        struct base_mail *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    *mailbox->end = oldest;
    mailbox->end = end;
}

static struct base_mail *next_mail(struct base_mailbox *mailbox)
{
    struct base_mail *mail = mailbox->oldest;
    mailbox->oldest = mail->next;
    if (!mailbox->oldest)
        mailbox->end = &mailbox->oldest;
    return mail;
}

size_t base_mailbox_run_some(struct base_mailbox *mailbox, size_t at_most)
{
    BASE_CHECK_MAGIC(mailbox, MAGIC);
    uint64_t count;
    size_t delivered = 0;
    ssize_t got = read(mailbox->fd, &count, sizeof count);
    BASE_CHECK(got == (ssize_t)sizeof count || errno == EAGAIN || errno == EINTR);
    take_mail(mailbox);
    for (; mailbox->oldest && delivered < at_most; delivered++) {
        struct base_mail *mail = next_mail(mailbox);
        mail->deliver(mail); /* which may release it */
    }
    if (mailbox->oldest)
        write_event(mailbox->fd);
    return delivered;
}

size_t base_mailbox_run(struct base_mailbox *mailbox)
{
    return base_mailbox_run_some(mailbox, SIZE_MAX);
}

size_t base_mailbox_wait(struct base_mailbox *mailbox, int timeout_ms)
{
    struct pollfd poller = {.fd = mailbox->fd, .events = POLLIN};
    while (poll(&poller, 1, timeout_ms) < 0)
        BASE_CHECK(errno == EINTR);
    return base_mailbox_run(mailbox);
}

void base_mailbox_free(struct base_mailbox *mailbox)
{
    if (mailbox->magic == 0)
        return;
    BASE_CHECK_MAGIC(mailbox, MAGIC);
    BASE_CHECK(atomic_load(&mailbox->newest) == NULL && !mailbox->oldest);
    close(mailbox->fd);
    mailbox->magic = 0;
}
