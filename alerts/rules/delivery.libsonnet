// SPDX-License-Identifier: Apache-2.0
//
// delivery.libsonnet - is every handoff acknowledged? One failure is informational, three in a row open a
// ticket, an open circuit pages; and work that waits for an operator, or that no agent takes, is never forgotten.
local newAlert = import '../lib/alert.libsonnet';
local names = import '../lib/names.libsonnet';

function(config)
  local alert = newAlert(config);
  local counters = (import '../lib/counters.libsonnet')(config);
  local increase = counters.increase;
  // Handoffs that ended so.
  local ended(outcomes, window) =
    local matcher = 'outcome=~"%s"' % std.join('|', outcomes);
    increase(['target_agent'], 'handoff_handoffs_total', [matcher], window);
  local of = {
    selector: config.selector,
    target: alert.by(['target_agent']),
    sidecar: alert.by(['instance']),
  };

  // Handoffs that failed are parked, unless their deadlines passed: then they have expired.
  local whyItFails = 'handoffctl agents; handoffctl parked list --target {{ $labels.target_agent }}; ' +
                     'handoffctl handoffs --newest --limit 5 --target {{ $labels.target_agent }}';

  local failed = alert.new({
    name: 'HandoffFailed',
    severity: 'info',
    scope: 'target',
    expr: ended(['exhausted', 'rejected'], config.failed.window) + '> 0',
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
    command: whyItFails,
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
        %(opened)s > 0
      )
      or
      (
        max by (%(target)s) (handoff_circuit_state{%(selector)s, state="open"}) == 1
      )
    ||| % (of { opened: counters.inside(increase(['target_agent'], 'handoff_circuit_opened_total', [], config.circuitOpen.window)) }),
    keep_firing_for: config.circuitOpen.keepFiringFor,
    command: whyItFails,
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
    // created within the hour before its acknowledgement; the oldest comes first
    command: "handoffctl handoffs --open --limit 5 --since $(date -u -d '-{{ $value | printf \"%.0f\" }} sec -1 hour' +%FT%TZ)",
  });

  local latencyHigh =
    local percentile(tier) = |||
      (
        %(seconds)s
        > %(share)g * max by (%(target)s) (handoff_agent_timeout_seconds{%(selector)s})
        and
        %(acknowledged)s >= %(handoffs)d
      )
    ||| % (of + config.latency + tier + {
             seconds: names.quantile('job_target_agent', 'handoff_duration_seconds', tier.quantile, config.latency.window),
             acknowledged: names.increase('job_target_agent', 'handoff_handoffs_acknowledged', config.latency.window),
           });
    alert.new({
      name: 'HandoffLatencyHigh',
      severity: 'warning',
      scope: 'target',
      expr: std.join('or\n', [percentile(tier) for tier in config.latency.percentiles]),
      'for': config.latency['for'],
      waiting: alert.now,
      summary: 'Acknowledgements take almost as long as the timeout allows',
      description: |||
        Handoffs to {{ $labels.target_agent }} take up to {{ $value | humanizeDuration }} to be acknowledged, which is more than %(percent)d %% of the agent's timeout.
        Past the timeout, every slow answer becomes a retry and adds load.
        Likely causes: the agent is overloaded or does its work before acknowledging, attempts fail and are retried, or the spine is slow (see the stages on the sidecar dashboard).
      ||| % { percent: config.latency.share * 100 },
      command: 'handoffctl agents; handoffctl handoffs --newest --limit 10 --target {{ $labels.target_agent }}',
    });

  local refused = alert.new({
    name: 'HandoffRefused',
    severity: 'info',
    scope: 'target',
    expr: ended(['refused'], config.refused.window) + '> 0',
    waiting: alert.now,
    summary: 'An agent refused a handoff',
    description: |||
      {{ $labels.target_agent }} refused at least one handoff in the last %(window)s, permanently; it is parked with the agent's reason.
      Likely causes: a request that the agent cannot process, or one that belongs to another agent.
    ||| % config.refused,
    command: 'handoffctl parked list --target {{ $labels.target_agent }} --reason refused',
  });

  local refusedRepeatedly = alert.new({
    name: 'HandoffRefusedRepeatedly',
    severity: 'warning',
    scope: 'target',
    expr: |||
      max by (%(target)s) (
        max_over_time(handoff_consecutive_refusals{%(selector)s}[%(window)s])
      ) >= %(count)d
    ||| % (of + config.refusedRepeatedly),
    waiting: alert.now,
    summary: 'An agent refuses one handoff after the other',
    description: |||
      {{ $labels.target_agent }} refused {{ $value }} handoffs in a row. Its circuit stays closed, since it answers.
      Likely causes: the agent or its senders were changed and no longer agree on the request, the agent rejects everything since its last deployment, or it lacks something that it needs.
    |||,
    command: 'handoffctl parked list --target {{ $labels.target_agent }} --reason refused',
  });

  local mostlyRefused = alert.new({
    name: 'HandoffMostlyRefused',
    severity: 'critical',
    scope: 'target',
    expr: |||
      (
        %(refused)s
        /
        %(settled)s
      ) > %(above)g
      and
      %(atLeast)s >= %(handoffs)d
    ||| % (config.mostlyRefused + {
             local settled = ended(['acknowledged', 'exhausted', 'rejected', 'refused', 'expired'], config.mostlyRefused.window),
             refused: counters.inside(ended(['refused'], config.mostlyRefused.window)),
             settled: counters.inside(settled),
             atLeast: std.stripChars(settled, '\n'),
           }),
    waiting: alert.now,
    summary: 'An agent refuses most of its handoffs',
    description: |||
      {{ $labels.target_agent }} refused {{ $value | humanizePercentage }} of its handoffs in the last %(window)s. They are parked, and their tasks are blocked.
      Likely causes: the agent or its senders were changed and no longer agree on the request, the agent rejects everything since its last deployment, or it lacks something that it needs.
    ||| % config.mostlyRefused,
    command: 'handoffctl parked list --target {{ $labels.target_agent }} --reason refused',
  });

  local expired = alert.new({
    name: 'HandoffExpired',
    severity: 'warning',
    scope: 'target',
    expr: ended(['expired'], config.expired.window) + '> 0',
    waiting: alert.now,
    summary: 'Deadlines passed before an agent acknowledged',
    description: |||
      At least one handoff to {{ $labels.target_agent }} passed its deadline in the last %(window)s. Expired handoffs are not parked and are never retried; their work is not done.
      Likely causes: the agent does not answer or does not poll its inbox, its retries take longer than the senders' deadlines, or a deadline is too short for the work.
    ||| % config.expired,
    command: 'handoffctl handoffs --state expired --newest --target {{ $labels.target_agent }}; handoffctl agents',
  });

  local inboxUnattended(severity) = alert.new({
    name: 'HandoffInboxUnattended',
    severity: severity,
    scope: 'target',
    // Work that arrived just now is not late, however long the agent had nothing to poll for.
    expr: |||
      max by (%(target)s) (
        (time() - handoff_inbox_last_poll_timestamp_seconds{%(selector)s})
        and
        handoff_inbox_waiting{%(selector)s} > 0
        and
        handoff_oldest_in_flight_seconds{%(selector)s} > %(seconds)d
      ) > %(seconds)d
    ||| % (of { seconds: names.seconds(config.inboxUnattended[severity]) }),
    waiting: alert.now,
    summary: 'An inbox that has work is not polled',
    description: |||
      {{ $labels.target_agent }} has work in its inbox and has not polled for {{ $value | humanizeDuration }}.
      Likely causes: the agent is not running, hangs or is busy with other work, it polls another sidecar or another name, or its token is rejected.
    |||,
    command: 'handoffctl agents; handoffctl handoffs --state ready --target {{ $labels.target_agent }}',
  });

  local channelBacklog = alert.new({
    name: 'HandoffChannelBacklog',
    severity: 'warning',
    scope: 'feed',
    expr: |||
      max by (%(feed)s) (
        handoff_channel_oldest_pending_seconds{%(selector)s}
      ) > %(seconds)d
    ||| % (of { feed: alert.by(['channel', 'receiver']), seconds: names.seconds(config.channelBacklog.olderThan) }),
    summary: 'A receiver of a channel is behind',
    description: |||
      {{ $labels.receiver }} has not acknowledged what was published to {{ $labels.channel }} {{ $value | humanizeDuration }} ago; %(pending)s pending. Other receivers are not delayed.
      Likely causes: the agent is down, its circuit is open or it does not poll its inbox; or it is slower than the channel.
    ||| % { pending: alert.pending },
  });

  {
    name: 'handoff-delivery.alerts',
    rules: [failed, consecutiveFailures, circuitOpen, parkedWaiting, taskStalled, latencyHigh, refused, refusedRepeatedly, mostlyRefused, expired, channelBacklog] +
           [inboxUnattended(severity) for severity in ['warning', 'critical']],
  }
