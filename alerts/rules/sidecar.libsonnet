// SPDX-License-Identifier: Apache-2.0
//
// sidecar.libsonnet - can the other alerts be trusted? The sidecar may be down, run an old configuration
// or fold label values; and a watchdog always fires, so its absence shows that paging is broken.
local newAlert = import '../lib/alert.libsonnet';
local names = import '../lib/names.libsonnet';

function(config)
  local alert = newAlert(config);
  local counters = (import '../lib/counters.libsonnet')(config);
  local increase = counters.increase;
  local of = { selector: config.selector, job: alert.by([]), sidecar: alert.by(['instance']) };

  local exporterDown = alert.new({
    name: 'HandoffExporterDown',
    severity: 'critical',
    scope: 'job',
    dashboard: config.dashboards.sidecar,
    expr: |||
      (
        max by (%(job)s) (up{%(selector)s}) == 0
      )
      or
      absent(up{%(selector)s})
    ||| % of,
    'for': config.exporterDown['for'],
    waiting: alert.lastKnown,
    summary: 'Sidecar down: agents cannot hand off and nothing is measured',
    description: |||
      Prometheus cannot scrape any sidecar of job {{ $labels.job }}; every other handoff alert is blind until it can.
      Accepted handoffs are in the store and resume at the next start.
      Likely causes: the process was stopped or crashes at startup, the store's disk is full, the node is gone, or Prometheus can no longer discover or reach it.
    |||,
    command: 'systemctl status handoff-exporter; journalctl -u handoff-exporter -n 50',
  });

  local exporterInstanceUnreachable = alert.new({
    name: 'HandoffExporterInstanceUnreachable',
    severity: 'warning',
    scope: 'sidecar',
    expr: |||
      max by (%(sidecar)s) (up{%(selector)s}) == 0
    ||| % of,
    'for': config.exporterInstanceUnreachable['for'],
    waiting: alert.lastKnown,
    summary: 'Prometheus cannot scrape one sidecar',
    description: |||
      Sidecar {{ $labels.instance }} could not be scraped for %(for)s; the agents next to it probably cannot hand off.
      Likely causes: the process or its node is down, or the address, certificate or password of its web listener changed.
    ||| % config.exporterInstanceUnreachable,
    command: 'curl -sS http://{{ $labels.instance }}/-/healthy',
  });

  local configReloadFailed = alert.new({
    name: 'HandoffConfigReloadFailed',
    severity: 'warning',
    scope: 'sidecar',
    expr: |||
      max by (%(sidecar)s) (
        handoff_exporter_config_last_reload_successful{%(selector)s}
      ) == 0
    ||| % of,
    'for': config.configReloadFailed['for'],
    summary: 'Configuration reload failed: a sidecar runs its old configuration',
    description: |||
      The last reload of {{ $labels.instance }} failed and it keeps running with its previous configuration; if restarted now, it would not start.
      Likely causes: an error in the file, or a certificate or token file named in it that cannot be read.
    |||,
    command: 'curl -sS -X POST http://{{ $labels.instance }}/-/reload',
  });

  local seriesDropped = alert.new({
    name: 'HandoffSeriesDropped',
    severity: 'warning',
    scope: 'sidecar',
    expr: increase(['instance'], 'handoff_exporter_series_dropped_total', [], config.seriesDropped.window) + '> 0',
    summary: 'Metrics incomplete: a metric reached its series limit',
    description: |||
      {{ $labels.instance }} had more label values than metrics.max_series_per_family allows in the last %(window)s and counts the rest under "other".
      Alerts about a single target cannot see those.
      Likely causes: more agents or channels than the limit was set for, or agent names generated per task.
    ||| % config.seriesDropped,
  });

  local tokensEstimated = alert.new({
    name: 'HandoffTokensEstimated',
    severity: 'info',
    scope: 'sidecar',
    expr: |||
      max by (%(sidecar)s) (handoff_tokenizer_exact{%(selector)s}) == 0
    ||| % of,
    'for': config.tokensEstimated['for'],
    summary: 'Tokens are estimated: a sidecar has no vocabulary',
    description: |||
      {{ $labels.instance }} found no vocabulary and estimates token counts from above, so envelopes carry less than their budgets allow.
      Likely causes: the vocabularies were not built or not installed, or HANDOFF_VOCABULARY_DIR names another place.
    |||,
    command: 'journalctl -u handoff-exporter | grep token_counts',
  });

  local requestsFailing = alert.new({
    name: 'HandoffRequestsFailing',
    severity: 'warning',
    scope: 'call',
    expr: |||
      (
        %(failed)s
        / ignoring (code) group_left ()
        %(all)s
      ) > %(above)g
      and ignoring (code)
      %(atLeast)s >= %(requests)d
    ||| % (config.requestsFailing + {
             local answered(labels, matchers) = increase(labels, 'handoff_api_requests_total', matchers, config.requestsFailing.window, begins=true),
             failed: counters.inside(answered(['call', 'code'], ['code!~"%s"' % std.join('|', ['ok'] + config.requestsFailing.others)])),
             all: counters.inside(answered(['call'], [])),
             atLeast: std.stripChars(answered(['call'], []), '\n'),
           }),
    'for': config.requestsFailing['for'],
    // who sent them, with which field
    command: "journalctl -u handoff-exporter | grep 'request_rejected call={{ $labels.call }} code={{ $labels.code }}' | tail -n 5{{ if eq $labels.code \"budget_too_small\" }}; handoffctl memories list --pinned{{ end }}",
    summary: 'Requests to the agent API fail',
    description: |||
      {{ $value | humanizePercentage }} of the requests to {{ $labels.call }} in the last %(window)s were answered with the problem {{ $labels.code }}.
      {{ if eq $labels.code "budget_too_small" }}What may never be trimmed does not fit the token budget, so nothing was stored or sent. Likely causes: a pinned memory that is too large where the strategy is full (handoffctl memories list --pinned), an intent, constraints or an expected output that grew, or a token_budget or max_tokens that is too small.{{ else }}Nothing was stored or sent for them. The log (request_rejected) and the status page name the callers and the field. Likely causes: a caller that was changed or was given the wrong token or name, or what the code says; docs/api.md lists the codes.{{ end }}
    ||| % config.requestsFailing,
  });

  local retentionCutShort = alert.new({
    name: 'HandoffRetentionCutShort',
    severity: 'warning',
    scope: 'sidecar',
    expr: |||
      (
        max by (%(sidecar)s) (
          handoff_retained_oldest_seconds{kind="chain", %(selector)s}
        ) < %(seconds)d
      )
      and
      (
        %(removed)s > 0
      )
    ||| % (of + {
             seconds: names.seconds(config.retentionCutShort.youngerThan),
             removed: counters.inside(
               increase(['instance'], 'handoff_retention_removed_total', ['kind="chain"', 'reason="size"'], config.retentionCutShort.window)
             ),
           }),
    'for': config.retentionCutShort['for'],
    summary: 'Retention by size: idempotency keys live less than %(youngerThan)s' % config.retentionCutShort,
    description: |||
      {{ $labels.instance }} removes finished handoffs for storage.retention.index_size, and the oldest one that is left finished {{ $value | humanizeDuration }} ago.
      A request that is repeated later makes a second handoff, and one that continues an older handoff is answered 404.
      Likely causes: more handoffs than the limit was set for, or large idempotency keys, task ids and constraints.
    |||,
  });

  // Three faults of one store, each with its own text; `cause` tells them apart.
  local storeFailing(cause, rule) = alert.new({
    name: 'HandoffStoreFailing',
    severity: 'critical',
    scope: 'sidecar',
    labels: { cause: cause },
    dashboard: config.dashboards.sidecar,
    waiting: alert.now,
    command: 'curl -s http://{{ $labels.instance }}/-/ready; curl -s http://{{ $labels.instance }}/metrics | grep ^handoff_store',
  } + rule);

  local storeDisplaced = storeFailing('displaced', {
    expr: |||
      max by (%(sidecar)s) (handoff_store_displaced{%(selector)s}) == 1
    ||| % of,
    summary: 'The store of a sidecar is not where it was: nothing is accepted',
    description: |||
      The store of {{ $labels.instance }} was deleted, moved, replaced or unmounted while it was in use.
      The sidecar answers every handoff with 503 store_displaced until it is restarted; what only its memory has is lost then.
      Likely causes: a cleanup or a restored backup under a running sidecar, or a volume that was detached.
    |||,
  });

  local storeCommitsFail = storeFailing('commits', {
    expr: increase(['instance'], 'handoff_store_commit_failures_total', [], config.storeFailing.window) + '> 0',
    summary: 'A sidecar cannot write to its store: handoffs are rejected',
    description: |||
      The store of {{ $labels.instance }} failed to commit in the last %(window)s; the handoffs concerned were rejected with an error, and accepted ones are safe.
      While writes fail, /-/ready answers 503 and says why; the sidecar tries one every second.
      Likely causes: the disk is full, read-only or failing.
    ||| % config.storeFailing,
  });

  local storeDiskFull = storeFailing('disk', {
    expr: |||
      (
        min by (%(sidecar)s) (
          handoff_store_disk_free_bytes{%(selector)s} / handoff_store_disk_size_bytes{%(selector)s}
        ) < %(below)g
      )
      and
      (
        min by (%(sidecar)s) (handoff_store_disk_free_bytes{%(selector)s}) < %(bytesBelow)d
      )
    ||| % (of + config.storeFailing.disk),
    'for': config.storeFailing.disk['for'],
    summary: 'The disk under the store of a sidecar is nearly full',
    description: |||
      {{ $value | humanizePercentage }} of the file system under the store of {{ $labels.instance }} is free, which is less than %(gigabytes)d GB.
      When it is full, handoffs are rejected with 503 store_full.
      Likely causes: other files on the same disk, or a storage.retention.size that is too large for it.
    ||| % config.storeFailing.disk,
  });

  local outOfResources = alert.new({
    name: 'HandoffExporterOutOfResources',
    severity: 'warning',
    scope: 'sidecar',
    expr: increase(['instance', 'resource'], 'handoff_exporter_resource_shortages_total', ['resource!="disk"'], config.outOfResources.window)
          + '>= %(shortages)d' % config.outOfResources,
    summary: 'A sidecar ran out of descriptors, memory, threads or ports',
    description: |||
      {{ $labels.instance }} ran out of {{ $labels.resource }} at least %(shortages)d times in the last %(window)s: deliveries and new connections are delayed.
      The agents are not at fault, and attempts that could not be made are not counted.
      Likely causes: LimitNOFILE is too low for the number of agents, a memory limit, or thousands of short connections to one address.
    ||| % config.outOfResources,
    command: "curl -s http://{{ $labels.instance }}/metrics | grep -E '^(handoff_exporter_resource|process_(open|max)_fds)'",
  });

  local watchdog = alert.new({
    name: 'HandoffWatchdog',
    severity: 'none',
    scope: 'job',
    expr: 'label_replace(vector(1), "job", "%s", "", "")' % config.job,
    summary: 'Watchdog: the alerting pipeline is alive',
    description: |||
      This alert always fires.
      Its receiver should raise the alarm when it stops arriving, because then no other alert would arrive either.
    |||,
    command: 'amtool alert query alertname=HandoffWatchdog',
  });

  {
    name: 'handoff-sidecar.alerts',
    rules: [
      exporterDown,
      exporterInstanceUnreachable,
      configReloadFailed,
      seriesDropped,
      tokensEstimated,
      requestsFailing,
      storeDisplaced,
      storeCommitsFail,
      storeDiskFull,
      outOfResources,
      retentionCutShort,
      watchdog,
    ],
  }
