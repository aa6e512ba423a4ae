// SPDX-License-Identifier: Apache-2.0
//
// delivery.libsonnet - is every handoff acknowledged? One failure informs, three in a row make a
// ticket, an open circuit pages; and what waits for a person or a receiver does not wait for ever.
local newAlert = import '../lib/alert.libsonnet';
local names = import '../lib/names.libsonnet';

function(config)
  local alert = newAlert(config);
  local of = {
    selector: config.selector,
    target: alert.by(['target_agent']),
    channel: alert.by(['channel', 'receiver']),
  };

  local failed = alert.new({
    name: 'HandoffFailed',
    severity: 'info',
    scope: 'target',
    expr: |||
      sum by (%(target)s) (
        increase(handoff_handoffs_total{%(selector)s, outcome="exhausted"}[%(window)s])
      ) > 0
    ||| % (of { window: config.failed.window }),
    waiting: alert.now,
    summary: 'A handoff used up all of its retries.',
    description: |||
      At least one handoff to {{ $labels.target_agent }} was not acknowledged by any attempt in the last %(window)s and is parked.
      A single one is information only; likely causes are a restart of the agent, a passing network fault or one request that the agent cannot digest.
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
    summary: 'Handoffs to one agent fail one after another.',
    description: |||
      {{ $value }} handoffs in a row to {{ $labels.target_agent }} used up their retries.
      Likely causes: the agent is down or restarting in a loop, it answers without naming the handoff it acknowledges, it is slower than its time-out, or its address or certificate changed.
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
    summary: 'The circuit to an agent opened: handoffs to it are turned away.',
    description: |||
      The circuit breaker for {{ $labels.target_agent }} opened after handoffs to it failed in a row.
      While it is open, new handoffs to it are refused at once; after the cooldown one probe decides whether it closes.
      Likely causes: the agent is down, overloaded or unreachable from the sidecar, or it answers every envelope with an error since a deployment.
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
    summary: 'Parked handoffs wait for a person.',
    description: |||
      The oldest parked handoff to {{ $labels.target_agent }} has waited {{ $value | humanizeDuration }}.
      Nothing delivers a parked handoff by itself: somebody has to replay or discard it.
      Likely causes: nobody looked after an outage was over, or the same handoffs fail again whenever they are replayed.
    |||,
  });

  local latencyHigh = alert.new({
    name: 'HandoffLatencyHigh',
    severity: 'warning',
    scope: 'target',
    // The classic buckets where they are scraped, the native histogram where they are not.
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
    summary: 'Acknowledgements take almost as long as they may.',
    description: |||
      One in a hundred handoffs to {{ $labels.target_agent }} took longer than {{ $value | humanizeDuration }} until it was acknowledged; one attempt may take %(timeout)s.
      Beyond the time-out every slow answer becomes a retry and adds load.
      Likely causes: the agent is overloaded or does its work before it acknowledges, attempts fail and are repeated, or the spine is slow (see the stages on the sidecar dashboard).
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
    summary: 'A receiver of a channel falls behind.',
    description: |||
      The oldest publication on channel {{ $labels.channel }} that {{ $labels.receiver }} has not acknowledged is {{ $value | humanizeDuration }} old.
      Likely causes: the receiver is down, it handles less than is published, or it fails on one publication that is delivered again and again.
    |||,
  });

  {
    name: 'handoff-delivery.alerts',
    rules: [failed, consecutiveFailures, circuitOpen, parkedWaiting, latencyHigh, channelBacklog],
  }
