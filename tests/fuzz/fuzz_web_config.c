/* SPDX-License-Identifier: Apache-2.0 */
/* Any web configuration file: it is taken, or refused with one line that names it. */
#include <stdint.h>
#include <string.h>

#include "exporter/config/web_settings.h"
#include "exporter/http/tls_priority.h"
#include "lib/base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct exporter_error error = {""};
    struct exporter_web_settings *settings =
        exporter_web_settings_load_memory("web.yml", (const char *)data, size, &error);
    if (settings == NULL) {
        BASE_CHECK(strncmp(error.text, "web.yml:", 8) == 0);
        BASE_CHECK(strchr(error.text, '\n') == NULL);
        return 0;
    }
    char priority[EXPORTER_TLS_PRIORITY_MAX];
    BASE_CHECK(!settings->tls.given || exporter_tls_priority(&settings->tls, priority, &error));
    BASE_CHECK(settings->nheaders <= EXPORTER_WEB_HEADERS_MAX);
    exporter_web_settings_free(&settings);
    return 0;
}
