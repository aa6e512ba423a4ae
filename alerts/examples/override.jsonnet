// SPDX-License-Identifier: Apache-2.0
//
// override.jsonnet - how to change what ships without editing it. Copy it, change it, and render with
//   alerts/render alerts/examples/override.jsonnet OUTPUT_DIRECTORY
(import '../mixin.libsonnet') + {
  _config+:: {
    // Two clusters scraped by one Prometheus, each its own pipeline.
    job: 'agents/handoff',
    groupLabels: ['cluster', 'job'],
    alertLabels: { team: 'agents' },

    runbookBaseUrl: 'https://wiki.example/handoff',
    dashboardBaseUrl: 'https://dashboards.example',

    // Our agents think for a minute before they acknowledge.
    latency+: { timeout: '90s' },
    // Half the failures we allow, and the budget with them.
    objective: 0.9975,
    failureRate+: { critical+: { above: 0.01 } },
  },

  // Nobody here cares for budgets that are too large.
  local dropped = ['HandoffBudgetUnderused'],
  prometheusAlerts+:: {
    groups: [
      group { rules: [rule for rule in group.rules if !std.member(dropped, rule.alert)] }
      for group in super.groups
    ],
  },
}
