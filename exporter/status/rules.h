/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - the rules of alerts/, evaluated by the sidecar itself for its status page.
 *
 * By the same thresholds (thresholds.h) and over the same counts (windows.h), so the page and a
 * Prometheus that scrapes this sidecar alone say the same. A rule is shown as soon as its condition
 * holds; the alert is pending then, and rings when it has held for as long as its `for`.
 */
#ifndef EXPORTER_STATUS_RULES_H
#define EXPORTER_STATUS_RULES_H

#include "exporter/status/status.h"
#include "exporter/status/windows.h"

/* Adds a finding to the status for each rule that would fire. Control thread. */
void exporter_rules_evaluate(struct exporter_status *status,
                             const struct exporter_windows *windows);

/* To be called with every record: an alert that rang keeps ringing for a while after its condition
 * ended, and no window says when that was. Control thread. */
void exporter_rules_remember(struct exporter_windows *windows);

/* The latency in seconds that so many of the acknowledged handoffs stayed below, as Prometheus
 * estimates it from buckets; 0: there are none. */
double exporter_rules_latency(const struct exporter_windows *windows,
                              const struct exporter_history *agent, double quantile, int seconds);

#endif
