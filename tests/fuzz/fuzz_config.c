/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes either give a configuration whose values are all within reach, or an error that begins
 * with the file's name, and with line and column unless it concerns the file as a whole.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/config/config.h"

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}

static void check_names(const struct exporter_config *config, const struct exporter_names *names,
                        const struct exporter_agent *self)
{
    for (size_t i = 0; i < names->count; i++) {
        const struct exporter_agent *agent = exporter_config_agent(config, names->items[i]);
        require(agent != NULL, "a list names an agent that exists");
        require(agent != self, "no agent is its own alternate");
    }
}

static void check_config(const struct exporter_config *config)
{
    require(config->hops.max >= 1 && config->hops.max <= 64, "hops.max is in bounds");
    for (size_t i = 0; i < config->nagents; i++) {
        const struct exporter_agent *agent = &config->agents[i];
        require(i == 0 || strcmp(agent[-1].options.name, agent->options.name) < 0,
                "agents are sorted, none twice");
        require(agent->options.url == NULL || strncmp(agent->options.url, "http", 4) == 0,
                "a URL is http");
        require(agent->options.url == NULL || strchr(agent->options.url, '#') == NULL,
                "a URL has no fragment");
        require(agent->options.backoff_base_ms <= agent->options.backoff_max_ms,
                "backoff.base is up to max");
        require(agent->options.accepts >= 1 && agent->options.accepts <= 3,
                "an agent reads some version");
        const struct exporter_names names = {agent->options.alternates, agent->options.nalternates};
        check_names(config, &names, agent);
    }
    for (size_t i = 0; i < config->npipelines; i++) {
        require(config->pipelines[i].agents.count > 0, "a pipeline has a step");
        check_names(config, &config->pipelines[i].agents, NULL);
    }
}

static void check_error(const char *text)
{
    unsigned line;
    unsigned column;

    require(strncmp(text, "f:", 2) == 0, "an error names the file");
    require(strpbrk(text, "\n\r\x1B") == NULL, "an error is one clean line");
    require(sscanf(text, "f:%u:%u: ", &line, &column) == 2 || strncmp(text, "f: ", 3) == 0,
            "an error has a line");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct exporter_error error = {""};
    struct exporter_config *config =
        exporter_config_load_memory("f", (const char *)data, size, &error);

    if (config == NULL) {
        check_error(error.text);
    } else {
        check_config(config);
    }
    exporter_config_unref(&config);
    return 0;
}
