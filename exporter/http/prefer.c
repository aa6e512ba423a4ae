/* SPDX-License-Identifier: Apache-2.0 */
/* What a client prefers, read element by element. Pure. */
#include "exporter/http/prefer.h"

#include <stddef.h>

#include "lib/base/header_list.h"

enum { WAIT_MAX_S = 1000000000 }; /* thirty years; a longer one is as good as this */

/* Delta-seconds; -1 where it is none. */
static int64_t read_wait(struct base_header_span text)
{
    int64_t seconds = text.length > 0 ? 0 : -1;
    for (size_t i = 0; i < text.length; i++) {
        if (text.begin[i] < '0' || text.begin[i] > '9')
            return -1;
        seconds = seconds * 10 + (text.begin[i] - '0');
        if (seconds > WAIT_MAX_S)
            seconds = WAIT_MAX_S;
    }
    return seconds;
}

void exporter_read_prefer(const char *prefer, struct exporter_preferences *preferences)
{
    struct base_header_span preference, first, name, value;
    bool waits = false, handles = false;
    *preferences = (struct exporter_preferences){.wait_s = -1};
    while (base_header_next(&prefer, ',', &preference)) {
        if (!base_header_parameter(&preference, &first))
            continue;
        base_header_split(first, &name, &value);
        if (base_header_is(name, "respond-async"))
            preferences->respond_async = true;
        if (base_header_is(name, "wait") && !waits) {
            waits = true;
            preferences->wait_s = read_wait(value);
        }
        if (base_header_is(name, "handling") && !handles) {
            handles = true;
            preferences->lenient = base_header_is(value, "lenient");
        }
    }
}
