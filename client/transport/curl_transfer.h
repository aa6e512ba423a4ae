/* SPDX-License-Identifier: Apache-2.0 */
/* curl_transfer.h - the driver that posts over libcurl: HTTPS, and what plain.h declines. */
#ifndef HANDOFF_TRANSPORT_CURL_TRANSFER_H
#define HANDOFF_TRANSPORT_CURL_TRANSFER_H

#include "client/transport/transport.h"

extern const struct handoff_transport_driver handoff_curl_driver;

#endif
