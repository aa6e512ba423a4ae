// SPDX-License-Identifier: Apache-2.0
//
// alert.libsonnet - builds one alert. An alert states its name, severity, scope, query and texts; the
// links and the diagnostic command follow from the scope, so no alert can lack them. So does the count of
// waiting handoffs, for alerts about a fault that makes handoffs wait.
//
// The scope names the labels that an alert carries besides the group labels:
//   target   target_agent
//   call     call, code
//   feed     channel, receiver
//   sidecar  instance
//   pattern  pattern
//   job      none: the alert covers all handoffs
function(config) {
  local scopeLabels = {
    target: ['target_agent'],
    call: ['call', 'code'],
    feed: ['channel', 'receiver'],
    sidecar: ['instance'],
    pattern: ['pattern'],
    job: [],
  },
  local scopeDashboard = {
    target: config.dashboards.agent,
    call: config.dashboards.sidecar,
    feed: config.dashboards.overview,
    sidecar: config.dashboards.sidecar,
    pattern: config.dashboards.tasks,
    job: config.dashboards.overview,
  },
  local scopeCommand = {
    target: 'handoffctl agents; handoffctl parked list --target {{ $labels.target_agent }}',
    call: 'journalctl -u handoff-exporter -n 50; handoffctl agents',
    feed: 'handoffctl channels show {{ $labels.channel }}; handoffctl agents',
    sidecar: 'handoffctl agents',
    pattern: 'handoffctl agents; handoffctl parked list',
    job: 'handoffctl agents; handoffctl parked list',
  },

  // The labels of an aggregation: by(['target_agent']) is 'job, target_agent'.
  by(labels):: std.join(', ', config.groupLabels + labels),

  // Values of `waiting`.
  now:: '%s',
  lastKnown:: 'last_over_time(%s[1h])',

  // A template that queries Prometheus for one number when the alert is evaluated: the sum of a gauge
  // over the series that the alert covers.
  local number(metric, labels, around) =
    local selector = std.join(',', [label + '=%q' for label in labels]);
    local query = 'sum(%s)' % (around % ('%s{%s}' % [metric, selector]));
    '{{ with printf `%s` %s | query }}{{ . | first | value }}{{ else }}?{{ end }}' % [
      query,
      std.join(' ', ['$labels.' + label for label in labels]),
    ],

  local waiting(scope, around) =
    local labels = config.groupLabels + scopeLabels[scope];
    number('handoff_parked_entries', labels, around) + ' parked, ' +
    number('handoff_in_flight', labels, around) + ' in flight',

  // The same for an alert of the scope `feed`.
  pending:: number('handoff_channel_pending', config.groupLabels + scopeLabels.feed, '%s'),

  local dashboardUrl(uid, scope) =
    local variables = ['job'] + [label for label in scopeLabels[scope] if !std.member(['pattern', 'call', 'code', 'channel', 'receiver'], label)];
    '%s/d/%s?%s' % [
      config.dashboardBaseUrl,
      uid,
      std.join('&', ['var-%s={{ $labels.%s | urlquery }}' % [name, name] for name in variables]),
    ],

  // A template that lists the agents with the most of a counter in the last hour, in alphabetical order, after `text`.
  // Empty if there are none, so it includes its leading space.
  mostAgents(text, metric, matchers, window='1h')::
    local selector = std.join(',', [label + '=%q' for label in config.groupLabels] + matchers);
    local query = 'topk(3, sum by (target_agent) (increase(%s{%s}[%s])) > 0)' % [metric, selector, window];
    ('{{ with printf `%s` %s | query }} %s' +
     '{{ range sortByLabel "target_agent" . }} {{ .Labels.target_agent }}{{ end }}.{{ end }}') % [
      query,
      std.join(' ', ['$labels.' + label for label in config.groupLabels]),
      text,
    ],

  // One alert. Optional: 'for', keep_firing_for, labels, dashboard, command, lastSentence (a template
  // that may render empty), and `waiting`: how to read the gauges of waiting handoffs, `now`, or
  // `lastKnown` if the sidecar that exported them may be down.
  new(alert):: {
    alert: alert.name,
    expr: std.stripChars(alert.expr, '\n'),
    [if 'for' in alert then 'for']: alert['for'],
    [if 'keep_firing_for' in alert then 'keep_firing_for']: alert.keep_firing_for,
    labels: { severity: alert.severity } + config.alertLabels + (if 'labels' in alert then alert.labels else {}),
    annotations: {
      summary: alert.summary,
      // written over several lines in the sources, one paragraph for the reader
      description: std.join(' ', std.split(std.stripChars(alert.description, '\n'), '\n')) +
                   (if 'lastSentence' in alert then alert.lastSentence else ''),
      [if 'waiting' in alert then 'waiting']: waiting(alert.scope, alert.waiting),
      command: if 'command' in alert then alert.command else scopeCommand[alert.scope],
      runbook_url: '%s/%s.md' % [config.runbookBaseUrl, alert.name],
      dashboard_url: dashboardUrl(
        if 'dashboard' in alert then alert.dashboard else scopeDashboard[alert.scope], alert.scope
      ),
    },
  },
}
