// SPDX-License-Identifier: Apache-2.0
//
// override.jsonnet - how to customize the shipped rules without editing them. Copy it, change it, and render it with
//   alerts/render alerts/examples/override.jsonnet OUTPUT_DIRECTORY
(import '../mixin.libsonnet') + {
  _config+:: {
    // One Prometheus scrapes two clusters, each its own pipeline.
    job: 'agents/handoff',
    groupLabels: ['cluster', 'job'],
    alertLabels: { team: 'agents' },

    runbookBaseUrl: 'https://wiki.example/handoff',
    dashboardBaseUrl: 'https://dashboards.example',

    // Our agents often use most of their timeout.
    latency+: { share: 0.95 },
    // Allow half as many failures, with half the error budget.
    objective: 0.9975,
    failureRate+: { critical+: { above: 0.01 } },
  },

  // Drop the alert about oversized token budgets.
  local dropped = ['HandoffBudgetUnderused'],
  prometheusAlerts+:: {
    groups: [
      group { rules: [rule for rule in group.rules if !std.member(dropped, rule.alert)] }
      for group in super.groups
    ],
  },
}
