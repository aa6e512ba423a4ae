/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held.h - the bytes that a server holds for its clients: bodies that come in, answers that go out.
 *
 * A client can make us hold megabytes with a request of a hundred bytes, and need not read them; or
 * send all of a body but its end. So the bytes have a limit. Beyond it connections give way:
 *
 *   1. those that move less than 64 KiB/s, the slowest first (crowd.h measures it);
 *   2. any that has taken more than two seconds, again the slowest first.
 *
 * Where everyone has just come and moves on, a body is refused, and so is an answer that can be
 * asked for again. What tells of a change is always answered.
 *
 * Small bodies and answers are not counted: their connections are limited, and hold as much for
 * their headers.
 *
 * On the server's loop.
 */
#ifndef EXPORTER_HTTP_HELD_H
#define EXPORTER_HTTP_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

struct exporter_connection;
struct exporter_problem;

struct exporter_held {
    TAILQ_HEAD(exporter_holders, exporter_connection) holders; /* the oldest first */
    size_t bytes;
};

void exporter_held_init(struct exporter_held *held);

/* Has others give way until that connection may hold so many bytes more. false: they are too many.
 */
bool exporter_held_make_room(struct exporter_connection *connection, size_t bytes);
/* What is added is dropped in the same portions. */
void exporter_held_add(struct exporter_connection *connection, size_t bytes);
void exporter_held_drop(struct exporter_connection *connection, size_t bytes);
/* It was cut, and everything goes with it. */
void exporter_held_drop_all(struct exporter_connection *connection);

/* The answer to a request whose body or answer cannot be held. */
extern const struct exporter_problem exporter_held_refusal;

#endif
