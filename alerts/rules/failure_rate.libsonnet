// SPDX-License-Identifier: Apache-2.0
//
// failure_rate.libsonnet - how many of all handoffs fail: the specification's two bounds, and the pace
// at which the error budget of the objective is spent. All of them need a minimum of handoffs and of
// failures, so that one failure in a quiet night is not a rate.
local newAlert = import '../lib/alert.libsonnet';
local names = import '../lib/names.libsonnet';

function(config)
  local alert = newAlert(config);

  // Both windows above `bound`, and enough in the long one to believe it.
  local sustained(bound, long, short) = |||
    %(longRatio)s > %(bound)s
    and
    %(shortRatio)s > %(bound)s
    and
    %(settled)s >= %(handoffs)d
    and
    %(failures)s >= %(minimumFailures)d
  ||| % {
    bound: bound,
    longRatio: names.failureRatio(long),
    shortRatio: names.failureRatio(short),
    settled: names.settled(long),
    failures: names.failures(long),
    handoffs: config.rateGuard.handoffs,
    minimumFailures: config.rateGuard.failures,
  };

  // A last sentence of the description: who is behind the failures of the last hour, in alphabetical
  // order. Nothing where nobody is, so the space before it is part of it.
  local worst =
    local selector = std.join(',', [label + '=%q' for label in config.groupLabels]);
    local query = 'topk(3, sum by (target_agent) (increase(handoff_handoffs_total{%s,outcome="exhausted"}[1h])) > 0)' % selector;
    ('{{ with printf `%s` %s | query }} In the last hour most of them went to' +
     '{{ range sortByLabel "target_agent" . }} {{ .Labels.target_agent }}{{ end }}.{{ end }}') % [
      query,
      std.join(' ', ['$labels.' + label for label in config.groupLabels]),
    ];

  local failureRate(name, severity, tier, summary, meaning, causes) = alert.new({
    name: name,
    severity: severity,
    scope: 'job',
    expr: sustained('%g' % tier.above, tier.long, tier.short),
    'for': tier['for'],
    waiting: alert.now,
    summary: summary,
    description: |||
      {{ $value | humanizePercentage }} of the handoffs that were tried in the last %(long)s used up their retries; more than %(percent)g %% is %(meaning)s.
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
    summary: 'Failing handoffs spend the error budget too fast.',
    description: |||
      {{ $value | humanizePercentage }} of the handoffs that were tried in the last %(long)s used up their retries, and it goes on.
      That burns the error budget of the %(objective)g %% objective more than %(factor)g-fold: about %(spent)s of 30 days' budget is gone.
      Likely causes: an agent that fails some of its handoffs without failing three in a row, or a fault that all agents share (network, certificates, the spine).
    ||| % (rule { objective: config.objective * 100 }),
    lastSentence: worst,
  });

  {
    name: 'handoff-failure-rate.alerts',
    rules: [
      failureRate(
        'HandoffFailureRateElevated', 'warning', config.failureRate.elevated,
        'More handoffs fail than in a healthy system.',
        'not healthy',
        'one agent that fails now and then, time-outs that are too short for its work, or requests that it cannot digest'
      ),
      failureRate(
        'HandoffFailureRateCritical', 'critical', config.failureRate.critical,
        'So many handoffs fail that the fault is systemic.',
        'systemic',
        'something that all agents share is broken, such as the network, certificates or the platform they run on, or one busy agent fails most of what it gets'
      ),
    ] + [burn(rule) for rule in config.errorBudgetBurn],
  }
