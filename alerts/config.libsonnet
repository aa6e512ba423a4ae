// SPDX-License-Identifier: Apache-2.0
//
// config.libsonnet - every setting in one place: the series selector, every threshold and every window.
// The rules take all their numbers from here and contain none themselves. To change a setting, override it
// as examples/override.jsonnet does; do not edit the rendered YAML.
{
  _config+:: {
    // --- which series to read, and labels and links of the alerts ---------------------------------

    // The name of the scrape job for the sidecars. kubernetes/*.yml sets the same one.
    job: 'handoff',
    // Selects the series of all sidecars. Keep an equality matcher on `job` in it: absent() takes the
    // alert's label from it.
    selector: 'job="%s"' % self.job,
    // The labels that identify one pipeline: "across all handoffs" means all with the same values of these.
    // Use ['cluster', 'namespace', 'job'] if one Prometheus scrapes several pipelines.
    groupLabels: ['job'],
    // Labels added to every alert, for routing: {team: 'agents'}.
    alertLabels: {},

    // Where the pages of docs/runbooks and the dashboards are served.
    runbookBaseUrl: 'https://handoff.example/runbooks',
    dashboardBaseUrl: 'https://grafana.example',
    dashboards: {
      overview: 'handoff-overview',
      agent: 'handoff-agent',
      tasks: 'handoff-tasks',
      sidecar: 'handoff-sidecar',
    },

    // --- how the recording rules count -------------------------------------------------------------

    // Windows up to `directUpTo` read the sidecars' own series. Longer ones add up the recorded
    // increases of consecutive tiles; otherwise every evaluation would read three days of raw samples of
    // every agent.
    directUpTo: '1h',
    tile: '5m',

    // --- delivery ----------------------------------------------------------------------------------

    // One failed handoff is informational and resolves after this long.
    failed: { window: '5m' },
    // The gauge drops to 0 with the next success, possibly before the next scrape.
    consecutiveFailures: { count: 3, window: '5m' },
    // A circuit that opens and closes between two scrapes shows only in its counter. During a
    // probe the circuit is briefly half open; keepFiringFor turns that, and flapping, into a single page.
    circuitOpen: { window: '5m', keepFiringFor: '5m' },
    parked: { olderThan: '1h', 'for': '5m' },
    // A refusal is the agent's own word about one handoff. Several in a row are about the agent.
    refused: { window: '5m' },
    refusedRepeatedly: { count: 3, window: '5m' },
    mostlyRefused: { above: 0.5, window: '15m', handoffs: 5 },
    // What has expired is not parked, so nothing else asks for a person.
    expired: { window: '15m' },
    // Work waits in an inbox, and its agent has not polled for so long.
    inboxUnattended: { warning: '5m', critical: '15m' },
    // A publication that a receiver of its channel has had pending for so long.
    channelBacklog: { olderThan: '15m' },
    latency: {
      share: 0.8,  // of the agent's timeout: beyond it, the next slowdown turns into retries
      window: '1h',
      'for': '10m',
      // The fewer handoffs, the lower the percentile, so that one or two slow ones never decide it.
      percentiles: [
        { quantile: 0.99, handoffs: 200 },
        { quantile: 0.9, handoffs: 30 },
        { quantile: 0.5, handoffs: 5 },
      ],
    },

    // --- requests ----------------------------------------------------------------------------------

    // The share of one code among the answers of one call. Codes that say how a handoff ended have alerts of
    // their own.
    requestsFailing: {
      above: 0.05,
      requests: 20,
      window: '15m',
      'for': '2m',
      others: ['exhausted', 'refused', 'rejected', 'expired', 'circuit_open', 'hop_limit', 'parked', 'discarded'],
    },

    // --- failure rate and error budget -------------------------------------------------------------

    objective: 0.995,
    // A rate counts only with at least this many handoffs and failures in its long window. One or two
    // failures are never a rate, however few handoffs there were.
    rateGuard: { handoffs: 100, failures: 3 },
    // Both windows must exceed the threshold: the long one shows that it matters, the short one that it is
    // still happening.
    failureRate: {
      elevated: { above: 0.005, long: '6h', short: '1h', 'for': '15m' },
      critical: { above: 0.02, long: '1h', short: '15m', 'for': '5m' },
    },
    // The windows and factors of Google's SRE workbook, for an objective over 30 days. `spent` is the
    // share of the 30 days' budget that is gone when the alert fires. The fastest keeps firing for as
    // long as the short window of failureRate.critical: otherwise that alert, muted until then, would page
    // after the outage.
    errorBudgetBurn: [
      { severity: 'critical', long: '1h', short: '5m', factor: 14.4, 'for': '2m', spent: '2 %', keepFiringFor: '15m' },
      { severity: 'critical', long: '6h', short: '30m', factor: 6, 'for': '15m', spent: '5 %' },
      { severity: 'warning', long: '1d', short: '2h', factor: 3, 'for': '1h', spent: '10 %' },
      { severity: 'warning', long: '3d', short: '6h', factor: 1, 'for': '3h', spent: '10 %' },
    ],

    // --- context -----------------------------------------------------------------------------------

    // `handoffs`: with fewer envelopes in the window, the share means nothing.
    completeness: {
      low: { below: 0.95, window: '1h', 'for': '10m', handoffs: 10 },
      critical: { below: 0.80, window: '15m', 'for': '2m', handoffs: 5 },
    },
    // Mean utilization. Trimming seldom fills a budget to the last token, since the next memory is usually
    // larger than the remaining room; so "at 100 %" means above 90 % on average while memories are trimmed.
    budgetUnderused: { below: 0.2, window: '1d', 'for': '1h', handoffs: 50 },
    contextTrimmed: { utilizationAbove: 0.9, trimmedAbove: 0.05, window: '1h', 'for': '30m', handoffs: 20 },
    // Memories that a receiver flagged as missing after it tried to fetch them.
    contextUnrecovered: { window: '15m' },
    // Share of the window in which the spine was up, so that a flapping spine is one alert.
    spineDown: { upBelow: 0.5, window: '5m' },

    // --- hops --------------------------------------------------------------------------------------

    // Compared with the week that ended a day ago, so a rise does not raise its own baseline.
    hopDepth: {
      factor: 1.5,
      hops: 1,  // and by at least this many: a rise from 1.0 to 1.6 is not a loop
      window: '1h',
      past: '7d',
      pastOffset: '1d',
      'for': '15m',
      handoffs: 20,
      pastHandoffs: 100,
    },
    hopLimit: { window: '15m' },
    pingPong: { window: '15m' },

    // --- the sidecar -------------------------------------------------------------------------------

    exporterDown: { 'for': '3m' },
    exporterInstanceUnreachable: { 'for': '10m' },
    configReloadFailed: { 'for': '5m' },
    tokensEstimated: { 'for': '5m' },
    seriesDropped: { window: '1h' },
    // Younger keys than this are still in use: senders repeat requests and tasks go on for so long.
    retentionCutShort: { youngerThan: '1d', window: '1h', 'for': '15m' },
    // A commit that fails was a sender that got an error, so one is enough. The disk is nearly full if it is
    // by both measures: a share of it, since small volumes are usual, and bytes, since large ones are too.
    storeFailing: { window: '5m', disk: { below: 0.05, bytesBelow: 1e9, gigabytes: 1, 'for': '5m' } },
    // Something that was put off once and done a second later is no ticket.
    outOfResources: { window: '5m', shortages: 3 },

    // --- Kubernetes --------------------------------------------------------------------------------

    kubernetes: {
      name: 'handoff-exporter',
      namespace: 'monitoring',
      // Labels by which the Prometheus resource selects its rules and monitors.
      labels: { 'app.kubernetes.io/name': 'handoff-exporter', prometheus: 'k8s', role: 'alert-rules' },
      // Labels of the pods or the service to scrape, and the name of the port that serves /metrics.
      matchLabels: { 'app.kubernetes.io/name': 'handoff-exporter' },
      port: 'web',
      interval: '15s',
    },
  },
}
