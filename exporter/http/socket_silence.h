/* SPDX-License-Identifier: Apache-2.0 */
/* socket_silence.h - how long a client has sent nothing.
 */
#ifndef EXPORTER_HTTP_SOCKET_SILENCE_H
#define EXPORTER_HTTP_SOCKET_SILENCE_H

#include <stdint.h>

/* How far the kernel's word may be off: it counts in ticks of up to 10 ms. */
enum { EXPORTER_SOCKET_SILENCE_TICK_MS = 20 };

/* Of a TCP socket; INT64_MAX of any other. */
int64_t exporter_socket_silence_ms(int fd);

#endif
