/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel, because libmicrohttpd reports nothing until a whole line has arrived. On the
 * connection's loop thread.
 */
#include "exporter/http/socket_silence.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

int64_t exporter_socket_silence_ms(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return INT64_MAX;
    return info.tcpi_last_data_recv;
}
