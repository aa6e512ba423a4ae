// SPDX-License-Identifier: Apache-2.0
//
// config.mjs - every number and address that the dashboards share with the alerts. A panel turns orange or
// red at the threshold of an alert, so these are the values of alerts/config.libsonnet;
// tests/lint/test_dashboards.py compares them.

export const uids = {
    overview: 'handoff-overview',
    agent: 'handoff-agent',
    tasks: 'handoff-tasks',
    sidecar: 'handoff-sidecar',
};

// Where docs/runbooks is served. `generate.mjs --runbooks URL` sets another address.
export const defaultRunbooks = 'https://handoff.example/runbooks';

// The tag by which dashboards find each other.
export const tag = 'handoff';

// Shares of 1, seconds and counts, as the metrics have them.
export const limits = {
    completeness: { low: 0.95, critical: 0.8 },
    failureRate: { elevated: 0.005, critical: 0.02 },
    objective: 0.995,
    timeout: 15,
    timeoutShare: 0.8,
    consecutiveFailures: 3,
    utilization: { underused: 0.2, full: 0.9 },
    parkedAge: 3600,
    consecutiveRefusals: 3,
    unpolled: 300,
    channelBacklog: 900,
};
