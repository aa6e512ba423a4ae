/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads long bodies on a worker, see long_input.h.
 *
 * Meanwhile the request is deferred, and keeps its body, which the worker reads. If the request is
 * cancelled first (the daemon ends), the body becomes ours. On the loop of the request, but for
 * read_on_worker, which touches nothing but the input.
 */
#include "exporter/http/long_input.h"

#include <stdlib.h>

#include "client/host_loop.h"
#include "exporter/client_host.h"
#include "exporter/http/http_private.h"
#include "lib/base/check.h"
#include "lib/base/container.h"

enum { LONG_INPUT_MAGIC = 0x10a61a90 };

struct long_input {
    unsigned magic;
    struct handoff_host_work work;
    struct exporter_request *request; /* NULL once it was cancelled */
    char *body;                       /* of that request; NULL: it has its body */
    struct exporter_input input;      /* the worker's, until it was read */
};

static void end_long_input(struct long_input *reading)
{
    handoff_host_free_arena(reading->work.loop, &reading->input.arena);
    exporter_input_close(&reading->input);
    free(reading->body);
    reading->magic = 0;
    free(reading);
}

static void read_on_worker(struct handoff_host_work *work)
{
    exporter_input_read(&BASE_CONTAINER_OF(work, struct long_input, work)->input);
}

static void long_input_was_read(struct handoff_host_work *work)
{
    struct long_input *reading = BASE_CONTAINER_OF(work, struct long_input, work);
    BASE_CHECK_MAGIC(reading, LONG_INPUT_MAGIC);
    if (reading->request != NULL)
        exporter_request_was_read(reading->request, &reading->input);
    end_long_input(reading);
}

static void reading_cancelled(void *arg)
{
    struct long_input *reading = arg;
    BASE_CHECK_MAGIC(reading, LONG_INPUT_MAGIC);
    reading->body = exporter_request_give_body(reading->request);
    reading->request = NULL;
}

static void refuse_long_input(struct exporter_request *request, struct exporter_input *input)
{
    static const struct exporter_problem busy = {.code = HANDOFF_ERR_TOO_MANY_IN_FLIGHT,
                                                 .detail = "too many long requests wait; retry",
                                                 .header = {"Retry-After", "1"}};
    exporter_input_close(input);
    exporter_respond_problem(request, &busy);
}

void exporter_long_input_begin(struct exporter_request *request, struct exporter_input *input)
{
    static const struct exporter_problem no_memory = {.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                                      .detail = "out of memory (long request)"};
    struct long_input *reading = calloc(1, sizeof *reading);
    if (reading == NULL) {
        exporter_input_close(input);
        exporter_respond_problem(request, &no_memory);
        return;
    }
    reading->magic = LONG_INPUT_MAGIC;
    reading->request = request;
    reading->input = *input;
    reading->work.work.bytes = input->body.size;
    reading->work.loop =
        exporter_client_host_loop(request->match.route->context, exporter_request_loop(request));
    reading->work.run = read_on_worker;
    reading->work.done = long_input_was_read;
    if (!handoff_host_work_begin(&reading->work)) {
        free(reading);
        refuse_long_input(request, input);
        return;
    }
    request->is_being_read = true;
    exporter_request_defer(request, reading_cancelled, reading);
    exporter_request_answers_soon(request);
}
