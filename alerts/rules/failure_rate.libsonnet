// SPDX-License-Identifier: Apache-2.0
//
// failure_rate.libsonnet - the share of handoffs that fail: the specification's two thresholds, and how
// fast the error budget burns. All of these alerts need a minimum number of handoffs and of failures, so
// that one failure on a quiet night does not count as a rate.
local newAlert = import '../lib/alert.libsonnet';
local names = import '../lib/names.libsonnet';

function(config)
  local alert = newAlert(config);

  local of = { selector: config.selector, job: alert.by([]), target: alert.by(['target_agent']) };

  // Both windows above `bound`, with enough handoffs in the long one to trust the rate. A target whose circuit
  // was open in the short window is left out: HandoffCircuitOpen pages for it, and whatever else fails must
  // still show.
  local sustained(bound, long, short) =
    local others(recorded) = |||
      sum by (%(job)s) (
        %(recorded)s
        unless
        min by (%(target)s) (min_over_time(handoff_circuit_state{%(selector)s, state="closed"}[%(short)s])) == 0
      )
    ||| % (of { recorded: recorded, short: short });
    local ratio(window) = '(\n%s/\n%s) > %s\n' % [others(names.targetFailures(window)), others(names.targetSettled(window)), bound];
    std.join('and\n', [
      ratio(long),
      ratio(short),
      others(names.targetSettled(long)) + '>= %d\n' % config.rateGuard.handoffs,
      others(names.targetFailures(long)) + '>= %d\n' % config.rateGuard.failures,
    ]);

  local worst = alert.mostAgents('In the last hour most failures were handoffs to', 'handoff_handoffs_total', ['outcome=~"exhausted|rejected"']);

  local failureRate(name, severity, tier, meaning, causes) = alert.new({
    name: name,
    severity: severity,
    scope: 'job',
    expr: sustained('%g' % tier.above, tier.long, tier.short),
    'for': tier['for'],
    waiting: alert.now,
    summary: 'Handoff failure rate above %g %%' % (tier.above * 100),
    description: |||
      {{ $value | humanizePercentage }} of the handoffs attempted in the last %(long)s failed; more than %(percent)g %% is %(meaning)s.
      Likely causes: %(causes)s.
    ||| % { long: tier.long, percent: tier.above * 100, meaning: meaning, causes: causes },
    lastSentence: worst,
  });

  local burn(rule) = alert.new({
    name: 'HandoffErrorBudgetBurn',
    severity: rule.severity,
    scope: 'job',
    labels: { long: rule.long, short: rule.short },
    expr: sustained('%g * (1 - %g)' % [rule.factor, config.objective], rule.long, rule.short),
    'for': rule['for'],
    [if 'keepFiringFor' in rule then 'keep_firing_for']: rule.keepFiringFor,
    waiting: alert.now,
    summary: 'Failed handoffs are burning the error budget too fast',
    description: |||
      {{ $value | humanizePercentage }} of the handoffs attempted in the last %(long)s failed, and failures continue.
      The error budget of the %(objective)g %% objective is burning at more than %(factor)g times the sustainable rate: about %(spent)s of the 30-day budget is gone.
      Likely causes: an agent that fails some of its handoffs but never three in a row, or a shared fault (network, certificates, the spine).
    ||| % (rule { objective: config.objective * 100 }),
    lastSentence: worst,
  });

  {
    name: 'handoff-failure-rate.alerts',
    rules: [
      failureRate(
        'HandoffFailureRateElevated', 'warning', config.failureRate.elevated,
        'not healthy',
        'one agent that fails intermittently, timeouts too short for its work, or requests that it cannot process'
      ),
      failureRate(
        'HandoffFailureRateCritical', 'critical', config.failureRate.critical,
        'systemic',
        'something that all agents share is broken, such as the network, certificates or the platform they run on, or one busy agent is failing most of its handoffs'
      ),
    ] + [burn(rule) for rule in config.errorBudgetBurn],
  }
