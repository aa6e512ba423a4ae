/* SPDX-License-Identifier: Apache-2.0 */
/* What a description must satisfy to be registered. Pure, any thread. */
#ifndef METRIC_NAMES_H
#define METRIC_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/metrics/metric.h"

bool metric_label_name_valid(const char *name);

/* Checks everything about `desc` that does not depend on other families. */
enum metric_code metric_desc_check(const struct metric_desc *desc, struct metric_error *error);

/* Whether two families would expose a sample or a family of the same name, in any format. */
bool metric_names_clash(const char *name, enum metric_type type, const char *other_name,
                        enum metric_type other_type);

/* The length of the family's name in OpenMetrics 1.0: a counter's excludes _total, if it ends so.
 */
size_t metric_base_length(const char *name, enum metric_type type);

enum metric_code metric_fail(struct metric_error *error, enum metric_code code, const char *message,
                             const char *subject);

#endif
