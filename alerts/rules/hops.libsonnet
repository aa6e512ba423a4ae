// SPDX-License-Identifier: Apache-2.0
//
// hops.libsonnet - do tasks take more handoffs than they used to? Depth is compared with the pipeline's
// own past, because three hops are many for one pipeline and few for another. Without a past there is
// nothing to compare with and nothing fires; the hop limit protects the pipeline from its first handoff.
// A task that two agents only hand back and forth is seen before it reaches that limit.
local newAlert = import '../lib/alert.libsonnet';
local names = import '../lib/names.libsonnet';

function(config)
  local alert = newAlert(config);
  local increase = (import '../lib/counters.libsonnet')(config).increase;
  local hops = config.hopDepth;

  local hopDepthRising = alert.new({
    name: 'HandoffHopDepthRising',
    severity: 'warning',
    scope: 'pattern',
    expr: |||
      %(now)s > %(factor)g * %(past)s
      and
      %(now)s >= %(hops)g + %(past)s
      and
      %(count)s >= %(handoffs)d
      and
      %(pastCount)s >= %(pastHandoffs)d
    ||| % (hops {
             now: names.mean('job_pattern', 'handoff_hop_depth', hops.window),
             past: names.mean('job_pattern', 'handoff_hop_depth', hops.past) + ' offset ' + hops.pastOffset,
             count: names.increase('job_pattern', 'handoff_hop_depth_count', hops.window),
             pastCount: names.increase('job_pattern', 'handoff_hop_depth_count', hops.past) + ' offset ' + hops.pastOffset,
           }),
    'for': hops['for'],
    summary: 'Tasks take more hops than they used to',
    description: |||
      Handoffs with pattern {{ $labels.pattern }} averaged {{ $value | printf "%%.1f" }} hops deep in the last %(window)s, at least %(factor)g times the average of the %(past)s before.
      Likely causes: two agents hand the same task back and forth, a routing rule sends work back to an agent that already had it, or a release split the work over more agents.
    ||| % hops,
    command: 'handoffctl agents; handoffctl parked list',
  });

  local hopLimitReached = alert.new({
    name: 'HandoffHopLimitReached',
    severity: 'warning',
    scope: 'target',
    expr: increase(['target_agent'], 'handoff_handoffs_total', ['outcome="hop_limit"'], config.hopLimit.window) + '> 0',
    dashboard: config.dashboards.tasks,
    summary: 'A task hit the hop limit',
    description: |||
      At least one handoff to {{ $labels.target_agent }} was rejected in the last %(window)s because its task had used up its hops; that task has stopped.
      Likely causes: agents hand a task back and forth without finishing it, or hops.max is smaller than the longest pipeline.
    ||| % config.hopLimit,
  });

  local pingPong = alert.new({
    name: 'HandoffPingPong',
    severity: 'info',
    scope: 'job',
    expr: increase([], 'handoff_ping_pongs_total', [], config.pingPong.window) + '> 0',
    dashboard: config.dashboards.tasks,
    summary: 'Two agents hand a task back and forth',
    description: |||
      At least one task went back and forth between the same two agents in the last %(window)s for four or more handoffs, none of which added anything to it.
      Likely causes: each agent takes the task to be the other one's, or one of them asks for something that the other cannot give.
    ||| % config.pingPong,
    command: 'journalctl -u handoff-exporter --since -1h -g ping_pong',
  });

  {
    name: 'handoff-hops.alerts',
    rules: [hopDepthRising, hopLimitReached, pingPong],
  }
