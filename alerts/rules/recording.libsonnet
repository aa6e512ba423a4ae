// SPDX-License-Identifier: Apache-2.0
//
// recording.libsonnet - the series that alerts and dashboards share. Numerators and denominators are
// recorded apart and divided last: a mean of ratios would give an idle agent the same weight as a busy one.
//
// Everything is an increase over a window, not a rate per second. The ratios are the same, and "at least
// 100 handoffs" needs no conversion.
local names = import '../lib/names.libsonnet';

function(config)
  local by(labels) = std.join(', ', config.groupLabels + labels);
  local isDirect(window) = names.seconds(window) <= names.seconds(config.directUpTo);
  local selector(matchers) = '{' + std.join(', ', [config.selector] + matchers) + '}';

  local record(name, expr) = { record: name, expr: expr };

  local counters = (import '../lib/counters.libsonnet')(config);
  local increase = counters.increase;
  local histogramPart = counters.histogramPart;

  // Consecutive tiles add up to the increase over a long window; time without a tile counts as zero.
  local tiles(recorded, window, tile) = 'sum_over_time(%s[%s:%s])' % [recorded, window, tile];

  local divide(numerator, denominator) = '%s\n/\n%s' % [numerator, denominator];

  local sumOf(recorded) = 'sum by (%s) (%s)' % [by([]), recorded];

  // A counter of each target over a window, `name` being a function from a window to the name of the recorded series.
  local counted(name, metric, matchers, window) =
    record(name(window), if isDirect(window) then increase(['target_agent'], metric, matchers, window) else tiles(name(config.tile), window, config.tile));

  local unique(windows) = std.set(windows, names.seconds);

  // --- failures, of each target and of all handoffs ------------------------------------------------------------------
  // Handoffs that a circuit or the hop limit stopped were never attempted, so they are not in the rate.

  local failureWindows = unique(
    [config.tile] +
    std.flattenArrays([
      [rule.long, rule.short]
      for rule in config.errorBudgetBurn + [config.failureRate.elevated, config.failureRate.critical]
    ])
  );

  local failures = std.flattenArrays([
    [
      counted(names.targetFailures, 'handoff_handoffs_total', ['outcome=~"exhausted|rejected"'], window),
      counted(names.targetSettled, 'handoff_handoffs_total', ['outcome=~"acknowledged|exhausted|rejected|refused|expired"'], window),
      record(names.failures(window), sumOf(names.targetFailures(window))),
      record(names.settled(window), sumOf(names.targetSettled(window))),
      record(names.failureRatio(window), divide(names.failures(window), names.settled(window))),
    ]
    for window in failureWindows
  ]);

  // --- how long each target takes ----------------------------------------------------------------

  local latencyWindow = config.latency.window;
  // Classic buckets if they are scraped, otherwise the native histogram.
  local percentile(quantile) = |||
    histogram_quantile(%(quantile)g, %(buckets)s)
    or
    histogram_quantile(
      %(quantile)g,
      sum by (%(target)s) (
        rate(handoff_duration_seconds%(selector)s[%(window)s])
      )
    )
  ||| % {
    quantile: quantile,
    buckets: names.increase('job_le_target_agent', 'handoff_duration_seconds_bucket', latencyWindow),
    target: by(['target_agent']),
    selector: selector(['outcome="acknowledged"']),
    window: latencyWindow,
  };
  local latency = [
    record(names.increase('job_le_target_agent', 'handoff_duration_seconds_bucket', latencyWindow),
           increase(['target_agent', 'le'], 'handoff_duration_seconds_bucket', ['outcome="acknowledged"'], latencyWindow)),
    record(names.increase('job_target_agent', 'handoff_handoffs_acknowledged', latencyWindow),
           increase(['target_agent'], 'handoff_handoffs_total', ['outcome="acknowledged"'], latencyWindow)),
  ] + [
    // Each percentile apart, so that neither one rule nor the alert that reads them all is slow with many agents.
    record(names.quantile('job_target_agent', 'handoff_duration_seconds', tier.quantile, latencyWindow), percentile(tier.quantile))
    for tier in config.latency.percentiles
  ];

  // --- completeness across all handoffs ----------------------------------------------------------
  // Requested is included + missing + trimmed: everything that did not make it into the envelope counts. A memory
  // that goes by its id alone is included.

  local completenessWindows = unique([config.completeness.low.window, config.completeness.critical.window]);

  local completeness = std.flattenArrays([
    [
      record(names.included(window), increase([], 'handoff_memory_refs_total', ['outcome="included"'], window)),
      record(names.requested(window), increase([], 'handoff_memory_refs_total', [], window)),
      record(names.completeness(window), divide(names.included(window), names.requested(window))),
      record(names.envelopes(window), histogramPart([], 'handoff_context_completeness_ratio', 'count', window)),
    ]
    for window in completenessWindows
  ]);

  // --- the token budget of each target -----------------------------------------------------------

  local perTarget(metric, window) = names.increase('job_target_agent', metric, window);
  local trimmedWindow = config.contextTrimmed.window;
  local budget = [
    record(perTarget('handoff_token_utilization_ratio_' + part, trimmedWindow),
           histogramPart(['target_agent'], 'handoff_token_utilization_ratio', part, trimmedWindow))
    for part in ['sum', 'count']
  ] + [
    record(perTarget('handoff_context_items_omitted', trimmedWindow),
           increase(['target_agent'], 'handoff_context_items_total', ['outcome="omitted"'], trimmedWindow)),
    record(perTarget('handoff_context_items', trimmedWindow),
           increase(['target_agent'], 'handoff_context_items_total', [], trimmedWindow)),
  ];

  // The tiles of the underused budget are as long as the window they were recorded with: a day is 24.
  local underusedWindow = config.budgetUnderused.window;
  local utilization = [
    record(perTarget('handoff_token_utilization_ratio_' + part, underusedWindow),
           tiles(perTarget('handoff_token_utilization_ratio_' + part, trimmedWindow), underusedWindow, trimmedWindow))
    for part in ['sum', 'count']
  ] + [
    record(names.mean('job_target_agent', 'handoff_token_utilization_ratio', window),
           divide(perTarget('handoff_token_utilization_ratio_sum', window), perTarget('handoff_token_utilization_ratio_count', window)))
    for window in [trimmedWindow, underusedWindow]
  ];

  // --- hop depth, now and in the past ------------------------------------------------------------

  local hops = config.hopDepth;
  local depth(part, window) = names.increase('job_pattern', 'handoff_hop_depth_' + part, window);
  local depthMean(window) = record(names.mean('job_pattern', 'handoff_hop_depth', window), divide(depth('sum', window), depth('count', window)));
  local hopDepth = [
    record(depth(part, hops.window), histogramPart(['pattern'], 'handoff_hop_depth', part, hops.window))
    for part in ['sum', 'count']
  ] + [
    depthMean(hops.window),
  ] + [
    record(depth(part, hops.past), tiles(depth(part, hops.window), hops.past, hops.window))
    for part in ['sum', 'count']
  ] + [
    depthMean(hops.past),
  ];

  local clean(rule) = rule { expr: std.stripChars(rule.expr, '\n') };
  local group(name, rules) = { name: name, rules: [clean(rule) for rule in rules] };

  [
    group('handoff-failures.rules', failures),
    group('handoff-latency.rules', latency),
    group('handoff-completeness.rules', completeness),
    group('handoff-budget.rules', budget + utilization),
    group('handoff-hops.rules', hopDepth),
  ]
