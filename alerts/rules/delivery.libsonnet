// SPDX-License-Identifier: Apache-2.0
//
// delivery.libsonnet - is every handoff acknowledged? One failure is informational, three in a row open a
// ticket, an open circuit pages; and work that waits for an operator or a receiver is never forgotten.
local newAlert = import '../lib/alert.libsonnet';
local names = import '../lib/names.libsonnet';

function(config)
  local alert = newAlert(config);
  local of = {
    selector: config.selector,
    target: alert.by(['target_agent']),
    sidecar: alert.by(['instance']),
    channel: alert.by(['channel', 'receiver']),
  };

  local failed = alert.new({
    name: 'HandoffFailed',
    severity: 'info',
    scope: 'target',
    expr: |||
      sum by (%(target)s) (
        increase(handoff_handoffs_total{%(selector)s, outcome=~"exhausted|rejected"}[%(window)s])
      ) > 0
    ||| % (of { window: config.failed.window }),
    waiting: alert.now,
    summary: 'A handoff could not be delivered',
    description: |||
      At least one handoff to {{ $labels.target_agent }} in the last %(window)s was never acknowledged and is now parked.
      A single failure needs no action; likely causes are an agent restart, a brief network fault, one request that the agent cannot process, or a wrong url or token (reason rejected).
    ||| % config.failed,
  });

  local consecutiveFailures = alert.new({
    name: 'HandoffConsecutiveFailures',
    severity: 'warning',
    scope: 'target',
    expr: |||
      max by (%(target)s) (
        max_over_time(handoff_consecutive_failures{%(selector)s}[%(window)s])
      ) >= %(count)d
    ||| % (of + config.consecutiveFailures),
    waiting: alert.now,
    summary: 'Several handoffs in a row to one agent failed',
    description: |||
      {{ $value }} handoffs in a row to {{ $labels.target_agent }} failed.
      Likely causes: the agent is down or crash-looping, its answer does not name the handoff it acknowledges, it is slower than its timeout or the senders' deadlines, or its url, token or certificate is wrong.
    |||,
  });

  local circuitOpen = alert.new({
    name: 'HandoffCircuitOpen',
    severity: 'critical',
    scope: 'target',
    expr: |||
      (
        sum by (%(target)s) (
          increase(handoff_circuit_opened_total{%(selector)s}[%(window)s])
        ) > 0
      )
      or
      (
        max by (%(target)s) (handoff_circuit_state{%(selector)s, state="open"}) == 1
      )
    ||| % (of { window: config.circuitOpen.window }),
    keep_firing_for: config.circuitOpen.keepFiringFor,
    waiting: alert.now,
    summary: 'Circuit open: new handoffs to an agent are rejected',
    description: |||
      The circuit breaker for {{ $labels.target_agent }} opened after several handoffs in a row failed.
      While it is open, new handoffs to this agent are rejected immediately; after the cooldown, one probe decides whether it closes.
      Likely causes: the agent is down, overloaded or unreachable from the sidecar, or it has been answering every envelope with an error since a deployment.
    |||,
  });

  local parkedWaiting = alert.new({
    name: 'HandoffParkedWaiting',
    severity: 'warning',
    scope: 'target',
    expr: |||
      max by (%(target)s) (
        handoff_oldest_parked_seconds{%(selector)s}
      ) > %(seconds)d
    ||| % (of { seconds: names.seconds(config.parked.olderThan) }),
    'for': config.parked['for'],
    waiting: alert.now,
    summary: 'Parked handoffs are waiting for an operator',
    description: |||
      The oldest parked handoff to {{ $labels.target_agent }} has waited {{ $value | humanizeDuration }}.
      Parked handoffs are never retried automatically: an operator has to replay or discard them.
      Likely causes: parked work was not replayed after an outage, or the same handoffs fail again each time they are replayed.
    |||,
  });

  local taskStalled = alert.new({
    name: 'HandoffTaskStalled',
    severity: 'warning',
    scope: 'sidecar',
    // The threshold is the sidecar's own; without tasks.stalled_after both are 0.
    expr: |||
      max by (%(sidecar)s) (
        handoff_oldest_open_task_seconds{%(selector)s}
      )
      > on (%(sidecar)s)
      max by (%(sidecar)s) (
        handoff_task_stalled_after_seconds{%(selector)s}
      )
    ||| % of,
    dashboard: config.dashboards.tasks,
    summary: 'A task stopped after an agent had acknowledged it',
    description: |||
      The last handoff of a task at {{ $labels.instance }} was acknowledged {{ $value | humanizeDuration }} ago. Since then nothing of it was in flight or parked, and no agent completed it.
      Likely causes: the agent that acknowledged it died before it handed on, or it finished the task without completing it (POST /v1/tasks/ID/complete).
    |||,
    command: 'handoffctl handoffs --state acknowledged',
  });

  local latencyHigh = alert.new({
    name: 'HandoffLatencyHigh',
    severity: 'warning',
    scope: 'target',
    // Classic buckets if they are scraped, otherwise the native histogram.
    expr: |||
      (
        histogram_quantile(
          %(quantile)g,
          sum by (%(target)s, le) (
            rate(handoff_duration_seconds_bucket{%(selector)s, outcome="acknowledged"}[%(window)s])
          )
        )
        or
        histogram_quantile(
          %(quantile)g,
          sum by (%(target)s) (
            rate(handoff_duration_seconds{%(selector)s, outcome="acknowledged"}[%(window)s])
          )
        )
      ) > %(share)g * %(seconds)d
      and
      sum by (%(target)s) (
        increase(handoff_handoffs_total{%(selector)s, outcome="acknowledged"}[%(window)s])
      ) >= %(handoffs)d
    ||| % (of + config.latency + { seconds: names.seconds(config.latency.timeout) }),
    'for': config.latency['for'],
    waiting: alert.now,
    summary: 'Acknowledgements take almost as long as the timeout allows',
    description: |||
      One in a hundred handoffs to {{ $labels.target_agent }} took longer than {{ $value | humanizeDuration }} to be acknowledged; the timeout of one attempt is %(timeout)s.
      Past the timeout, every slow answer becomes a retry and adds load.
      Likely causes: the agent is overloaded or does its work before acknowledging, attempts fail and are retried, or the spine is slow (see the stages on the sidecar dashboard).
    ||| % config.latency,
  });

  local channelBacklog = alert.new({
    name: 'HandoffChannelBacklog',
    severity: 'warning',
    scope: 'channel',
    expr: |||
      max by (%(channel)s) (
        handoff_channel_oldest_pending_seconds{%(selector)s}
      ) > %(seconds)d
    ||| % (of { seconds: names.seconds(config.channelBacklog.olderThan) }),
    'for': config.channelBacklog['for'],
    waiting: alert.now,
    summary: 'A channel receiver is falling behind',
    description: |||
      The oldest publication on channel {{ $labels.channel }} that {{ $labels.receiver }} has not acknowledged is {{ $value | humanizeDuration }} old.
      Likely causes: the receiver is down, it cannot keep up with the publish rate, or it keeps failing on one publication that is redelivered each time.
    |||,
  });

  {
    name: 'handoff-delivery.alerts',
    rules: [failed, consecutiveFailures, circuitOpen, parkedWaiting, taskStalled, latencyHigh, channelBacklog],
  }
