/* SPDX-License-Identifier: Apache-2.0 */
/* Any Accept and Accept-Encoding header: an answer is one of ours, whatever the bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/exposition/negotiate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *header = malloc(size + 1); /* its own allocation, so that a byte too far is seen */
    if (header == NULL)
        return 0;
    memcpy(header, data, size);
    header[size] = '\0';
    const struct exposition_negotiated got = exposition_negotiate(header);
    const char *begins = got.format == METRIC_TEXT ? "text/plain; version=0.0.4;"
                         : got.format == METRIC_OPENMETRICS || got.format == METRIC_OPENMETRICS_2
                             ? "application/openmetrics-text; version="
                             : "application/vnd.google.protobuf; ";
    BASE_CHECK(strncmp(got.content_type, begins, strlen(begins)) == 0);
    BASE_CHECK(strstr(got.content_type, "; escaping=") != NULL);
    exposition_accepts_gzip(header);
    free(header);
    return 0;
}
