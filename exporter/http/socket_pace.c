/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel, because libmicrohttpd reports nothing until a whole line has arrived, and never
 * how much of an answer was sent. On the connection's loop thread.
 */
#include "exporter/http/socket_pace.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* Whether the kernel filled the structure up to `needed` bytes. */
static bool read_tcp_info(int fd, struct tcp_info *info, size_t needed)
{
    socklen_t size = sizeof *info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &size) == 0 && size >= needed;
}

int64_t exporter_socket_silence_ms(int fd)
{
    struct tcp_info info = {0};
    if (!read_tcp_info(fd, &info, offsetof(struct tcp_info, tcpi_last_ack_recv)))
        return INT64_MAX;
    return info.tcpi_last_data_recv;
}

int64_t exporter_socket_taken(int fd)
{
    struct tcp_info info = {0};
    if (!read_tcp_info(fd, &info, offsetof(struct tcp_info, tcpi_bytes_received)))
        return -1;
    return (int64_t)info.tcpi_bytes_acked;
}

int64_t exporter_socket_written(int fd)
{
    int waiting;
    const int64_t taken = exporter_socket_taken(fd);
    return taken >= 0 && ioctl(fd, SIOCOUTQ, &waiting) == 0 ? taken + waiting : -1;
}
