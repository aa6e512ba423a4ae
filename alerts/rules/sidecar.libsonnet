// SPDX-License-Identifier: Apache-2.0
//
// sidecar.libsonnet - can the other alerts be trusted? The sidecar may be gone, run an old file or fold
// label values; and a watchdog fires always, so that its silence tells that nobody would be paged.
local newAlert = import '../lib/alert.libsonnet';

function(config)
  local alert = newAlert(config);
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
    summary: 'The sidecar is gone: agents cannot hand off, and nothing is measured.',
    description: |||
      No sidecar of job {{ $labels.job }} answers Prometheus; every other alert about handoffs is blind meanwhile.
      What was accepted is in the store and resumes at the next start.
      Likely causes: the process was stopped or crashes at start, the disk of its store is full, its node is gone, or Prometheus does not find or reach it any more.
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
    summary: 'One sidecar does not answer Prometheus.',
    description: |||
      The sidecar {{ $labels.instance }} could not be scraped for %(for)s; the agents beside it can probably not hand off.
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
    summary: 'A sidecar runs an old configuration.',
    description: |||
      The last reload of {{ $labels.instance }} failed, and it goes on with the configuration it had; a restart now would not start at all.
      Likely causes: a mistake in the file, or a certificate or token file that it names cannot be read.
    |||,
    command: 'curl -sS -X POST http://{{ $labels.instance }}/-/reload',
  });

  local seriesDropped = alert.new({
    name: 'HandoffSeriesDropped',
    severity: 'warning',
    scope: 'sidecar',
    expr: |||
      sum by (%(sidecar)s) (
        increase(handoff_exporter_series_dropped_total{%(selector)s}[%(window)s])
      ) > 0
    ||| % (of + config.seriesDropped),
    summary: 'Metrics are incomplete: series were folded together.',
    description: |||
      {{ $labels.instance }} had more label values than metrics.max_series_per_family allows in the last %(window)s, and counts the rest together.
      Alerts about a single target are blind for those.
      Likely causes: more agents or channels than the limit was set for, or names that are made up anew for every task.
    ||| % config.seriesDropped,
  });

  local watchdog = alert.new({
    name: 'HandoffWatchdog',
    severity: 'none',
    scope: 'job',
    expr: 'label_replace(vector(1), "job", "%s", "", "")' % config.job,
    summary: 'The way from Prometheus to Alertmanager works.',
    description: |||
      This alert fires always.
      Whatever receives it should raise the alarm when it stops coming, because then no other alert would come either.
    |||,
    command: 'amtool alert query alertname=HandoffWatchdog',
  });

  {
    name: 'handoff-sidecar.alerts',
    rules: [exporterDown, exporterInstanceUnreachable, configReloadFailed, seriesDropped, watchdog],
  }
