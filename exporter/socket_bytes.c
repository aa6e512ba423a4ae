/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel, since libmicrohttpd tells of nothing before a whole line is there. The kernel's
 * own header, which does not go together with <netinet/tcp.h>, has this field; that one has not. */
#include "exporter/socket_bytes.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

uint64_t exporter_socket_bytes_received(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return 0;
    return info.tcpi_bytes_received;
}
