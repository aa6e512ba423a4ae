/* SPDX-License-Identifier: Apache-2.0 */
/*
 * long_input.h - a long body of a call, read on a worker of the client, because a loop that serves
 * others may not take so long for one request.
 *
 * On the loop of the request.
 */
#ifndef EXPORTER_HTTP_LONG_INPUT_H
#define EXPORTER_HTTP_LONG_INPUT_H

#include "exporter/http/input.h"

/* Takes the input over, and runs the call's handler when it was read, also for a client that has
 * stopped sending meanwhile. Where the workers take no more, that is answered. */
void exporter_long_input_begin(struct exporter_request *request, struct exporter_input *input);

#endif
