/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that read for those who may not wait. Reads are done in the order in which they came;
 * there are two threads, so that one long list does not keep all others waiting.
 *
 * The queue is a list of what the askers own, so it allocates nothing. It is as long as there are
 * requests that wait, which the listener limits.
 */
#include <pthread.h>

#include "client/store/sqlite/store_internal.h"
#include "lib/base/check.h"
#include "lib/base/error.h"

/* A read is found from its mail, which is its first member. */
static struct handoff_store_read *read_of(struct base_mail *mail)
{
    return (struct handoff_store_read *)(void *)mail;
}

static void deliver_read(struct base_mail *mail)
{
    struct handoff_store_read *read = read_of(mail);
    read->done(read);
}

/* NULL: the store closes, and nothing waits any more. */
static struct handoff_store_read *take_read(struct handoff_reader_threads *readers)
{
    pthread_mutex_lock(&readers->lock);
    while (!readers->oldest && !readers->stopping)
        pthread_cond_wait(&readers->filled, &readers->lock);
    struct base_mail *mail = readers->oldest;
    if (mail)
        readers->oldest = mail->next;
    if (!readers->oldest)
        readers->last = &readers->oldest;
    pthread_mutex_unlock(&readers->lock);
    return mail ? read_of(mail) : NULL;
}

static void *reader_main(void *argument)
{
    struct handoff_reader_threads *readers = argument;
    struct handoff_store_read *read;
    while ((read = take_read(readers))) {
        read->run(read);
        read->mail.deliver = deliver_read;
        base_mailbox_post(read->mailbox, &read->mail);
    }
    return NULL;
}

void handoff_store_submit_read(struct handoff_store *store, struct handoff_store_read *read)
{
    struct handoff_reader_threads *readers = &store->readers;
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    BASE_CHECK(read->mailbox && read->run && read->done);
    read->mail.next = NULL;
    pthread_mutex_lock(&readers->lock);
    BASE_CHECK(!readers->stopping);
    *readers->last = &read->mail;
    readers->last = &read->mail.next;
    pthread_mutex_unlock(&readers->lock);
    pthread_cond_signal(&readers->filled);
}

void handoff_reader_threads_init(struct handoff_reader_threads *readers)
{
    pthread_mutex_init(&readers->lock, NULL);
    pthread_cond_init(&readers->filled, NULL);
    readers->last = &readers->oldest;
}

enum handoff_code handoff_reader_threads_start(struct handoff_reader_threads *readers,
                                               struct handoff_error *error)
{
    for (; readers->count < HANDOFF_READER_THREADS; readers->count++) {
        if (pthread_create(&readers->threads[readers->count], NULL, reader_main, readers) != 0)
            return handoff_error_set(error, HANDOFF_ERR_OUT_OF_MEMORY,
                                     "cannot start the store's reader threads; raise the process "
                                     "limit",
                                     NULL, NULL);
    }
    return HANDOFF_OK;
}

void handoff_reader_threads_stop(struct handoff_reader_threads *readers)
{
    pthread_mutex_lock(&readers->lock);
    readers->stopping = true;
    pthread_mutex_unlock(&readers->lock);
    pthread_cond_broadcast(&readers->filled);
    while (readers->count > 0)
        pthread_join(readers->threads[--readers->count], NULL);
    pthread_cond_destroy(&readers->filled);
    pthread_mutex_destroy(&readers->lock);
}
