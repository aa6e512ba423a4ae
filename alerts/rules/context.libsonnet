// SPDX-License-Identifier: Apache-2.0
//
// context.libsonnet - do receivers get the context they need? Completeness is a share of all requested
// memories (a sum over a sum); token budgets are evaluated per target.
local newAlert = import '../lib/alert.libsonnet';
local names = import '../lib/names.libsonnet';

function(config)
  local alert = newAlert(config);
  local increase = (import '../lib/counters.libsonnet')(config).increase;
  local of = { selector: config.selector, sidecar: alert.by(['instance']), target: alert.by(['target_agent']) };
  local perTarget(metric, window) = names.increase('job_target_agent', metric, window);
  local utilization(window) = names.mean('job_target_agent', 'handoff_token_utilization_ratio', window);
  local envelopesOfTarget(window) = perTarget('handoff_token_utilization_ratio_count', window);

  local completeness(name, severity, tier, summary, description) = alert.new({
    name: name,
    severity: severity,
    scope: 'job',
    expr: |||
      %(ratio)s < %(below)g
      and
      %(envelopes)s >= %(handoffs)d
    ||| % (tier { ratio: names.completeness(tier.window), envelopes: names.envelopes(tier.window) }),
    'for': tier['for'],
    summary: summary,
    description: description % (tier { percent: tier.below * 100 }),
    // which agents; `handoffctl status ID` of one then says which memories
    lastSentence: alert.mostAgents('Most were missing for', 'handoff_memory_refs_total', ['outcome!="included"'], tier.window),
    command: 'handoffctl handoffs --incomplete --newest --limit 10; handoffctl agents',
  });

  local completenessLow = completeness(
    'HandoffCompletenessLow', 'warning', config.completeness.low,
    'Envelopes are missing requested memories',
    |||
      Only {{ $value | humanizePercentage }} of the memories requested in the last %(window)s made it into their envelopes; below %(percent)g %% the cause is worth finding.
      Likely causes: agents request memories that were deleted or never stored, token budgets are too small and memories are trimmed, or some spine requests fail.
    |||
  );

  local completenessCritical = completeness(
    'HandoffCompletenessCritical', 'critical', config.completeness.critical,
    'Agents are working with degraded context',
    |||
      Only {{ $value | humanizePercentage }} of the memories requested in the last %(window)s made it into their envelopes; below %(percent)g %% across all handoffs, output quality is likely compromised.
      Likely causes: the spine lost memories or some of its requests fail, a release requests ids that do not exist, or a token budget was cut.
    |||
  );

  local budgetUnderused = alert.new({
    name: 'HandoffBudgetUnderused',
    severity: 'info',
    scope: 'target',
    expr: |||
      %(mean)s < %(below)g
      and
      %(envelopes)s >= %(handoffs)d
    ||| % (config.budgetUnderused {
             mean: utilization(config.budgetUnderused.window),
             envelopes: envelopesOfTarget(config.budgetUnderused.window),
           }),
    'for': config.budgetUnderused['for'],
    summary: 'An agent uses little of its token budget',
    description: |||
      Envelopes to {{ $labels.target_agent }} filled {{ $value | humanizePercentage }} of their token budget on average in the last %(window)s.
      Likely causes: the budget is larger than the work needs, or senders request too few memories.
    ||| % config.budgetUnderused,
  });

  local contextTrimmed = alert.new({
    name: 'HandoffContextTrimmed',
    severity: 'warning',
    scope: 'target',
    expr: |||
      (
        %(omitted)s
        /
        %(items)s
      ) > %(trimmedAbove)g
      and
      %(mean)s > %(utilizationAbove)g
      and
      %(envelopes)s >= %(handoffs)d
    ||| % (config.contextTrimmed {
             omitted: perTarget('handoff_context_items_omitted', config.contextTrimmed.window),
             items: perTarget('handoff_context_items', config.contextTrimmed.window),
             mean: utilization(config.contextTrimmed.window),
             envelopes: envelopesOfTarget(config.contextTrimmed.window),
           }),
    'for': config.contextTrimmed['for'],
    summary: "Context is being trimmed to fit an agent's token budget",
    description: |||
      {{ $value | humanizePercentage }} of the context that tasks had for {{ $labels.target_agent }} in the last %(window)s was omitted because its envelopes are full.
      Likely causes: its token_budget is too small for the work, tasks have grown long, or memories without a summary take up too much space.
    ||| % config.contextTrimmed,
  });

  local contextUnrecovered = alert.new({
    name: 'HandoffContextUnrecovered',
    severity: 'warning',
    scope: 'target',
    expr: increase(['target_agent'], 'handoff_memory_recovery_total', ['outcome="missing"'], config.contextUnrecovered.window) + '> 0',
    summary: 'An agent works without memories it should have had',
    description: |||
      {{ $labels.target_agent }} flagged memories in the last %(window)s that its handoffs lack and that it could not fetch; it works with incomplete context.
      Likely causes: the spine was down while envelopes were assembled and still is, senders request memories that were deleted or never stored, or memories are in a scope that the request does not see.
    ||| % config.contextUnrecovered,
    command: "handoffctl handoffs --incomplete --newest --limit 10 --target {{ $labels.target_agent }}",
  });

  local spineDown = alert.new({
    name: 'HandoffSpineDown',
    severity: 'critical',
    scope: 'sidecar',
    expr: |||
      min by (%(sidecar)s) (handoff_spine_up{%(selector)s}) == 0
      or
      min by (%(sidecar)s) (
        avg_over_time(handoff_spine_up{%(selector)s}[%(window)s])
      ) < %(upBelow)g
    ||| % (of + config.spineDown),
    waiting: alert.now,
    summary: 'Spine unreachable: envelopes are missing memories',
    description: |||
      Sidecar {{ $labels.instance }} gets no answer from the spine: the last five requests failed, none has succeeded since the start, or it was down for more than half of the last %(window)s.
      Handoffs that need memories go out incomplete or are rejected.
      Likely causes: the memory service is down or overloaded, its address or credentials changed, or the disk of an embedded spine is full or failing.
    ||| % config.spineDown,
    command: 'handoffctl agents; curl -s http://{{ $labels.instance }}/metrics | grep handoff_spine',
  });

  {
    name: 'handoff-context.alerts',
    rules: [completenessLow, completenessCritical, budgetUnderused, contextTrimmed, contextUnrecovered, spineDown],
  }
