/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.h - where a listener listens: "host:port", ":port", "[v6]:port" or "unix:PATH".
 *
 * Only the form is checked here; whether the host exists and the port is free is known when it is
 * bound.
 */
#ifndef EXPORTER_CONFIG_ADDRESS_H
#define EXPORTER_CONFIG_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    EXPORTER_HOST_MAX = 253,      /* a DNS name's limit (RFC 1035); longer than any address */
    EXPORTER_UNIX_PATH_MAX = 107, /* what sockaddr_un holds besides its final zero */
};

struct exporter_address {
    bool is_unix;
    char host[EXPORTER_HOST_MAX + 1]; /* without brackets; "" means every interface */
    uint16_t port;                    /* 0: the system picks one */
    char path[EXPORTER_UNIX_PATH_MAX + 1];
};

/* false where `text` is not such an address; `address` is then all zero. */
bool exporter_address_parse(const char *text, struct exporter_address *address);

#endif
