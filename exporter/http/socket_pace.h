/* SPDX-License-Identifier: Apache-2.0 */
/* socket_pace.h - how a client sends and reads, as the kernel knows it. */
#ifndef EXPORTER_HTTP_SOCKET_PACE_H
#define EXPORTER_HTTP_SOCKET_PACE_H

#include <stdint.h>

/* How far the kernel's word may be off: it counts in ticks of up to 10 ms. */
enum { EXPORTER_SOCKET_SILENCE_TICK_MS = 20 };

/* How long the client has sent nothing. Of a TCP socket; INT64_MAX of any other. */
int64_t exporter_socket_silence_ms(int fd);

/* How many bytes its machine has taken since the connection began. Of a TCP socket; -1 of any
 * other: what a unix socket has passed on is not counted, and its clients are of this machine. */
int64_t exporter_socket_taken(int fd);
/* How many bytes of answers the kernel has been given, of which the client's has taken
   exporter_socket_taken; -1: it cannot tell. */
int64_t exporter_socket_written(int fd);

#endif
