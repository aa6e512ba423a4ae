/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changes.h - who may change something over the web listener, which anyone may scrape.
 *
 * Whoever shows a password or a verified client certificate may. Without those, only this machine
 * may, and not by a name that a page of the public DNS can have sent; --web.enable-lifecycle opens
 * it to other machines, as Prometheus does, but to no page.
 */
#ifndef EXPORTER_ACCESS_CHANGES_H
#define EXPORTER_ACCESS_CHANGES_H

#include "exporter/http/problem.h"

/* Why the request may not change anything, from its headers alone; NULL: it may. Static. */
const struct exporter_problem *exporter_changes_refuse(const struct exporter_request *request);

#endif
