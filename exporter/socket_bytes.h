/* SPDX-License-Identifier: Apache-2.0 */
/* socket_bytes.h - how much a client has sent so far, whoever has read it. */
#ifndef EXPORTER_SOCKET_BYTES_H
#define EXPORTER_SOCKET_BYTES_H

#include <stdint.h>

/* Of a TCP socket; 0, always, of any other. */
uint64_t exporter_socket_bytes_received(int fd);

#endif
