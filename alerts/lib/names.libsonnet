// SPDX-License-Identifier: Apache-2.0
//
// names.libsonnet - the names of recorded series and the arithmetic of windows, shared by the rules that
// record and the alerts that read. Names are level:metric:operations.
local secondsPer = { s: 1, m: 60, h: 3600, d: 86400, w: 604800 };
{
  // '15m' is 900
  seconds(duration)::
    local last = std.length(duration) - 1;
    std.parseInt(duration[:last]) * secondsPer[duration[last]],

  increase(level, metric, window):: '%s:%s:increase%s' % [level, metric, window],
  ratio(level, metric, window):: '%s:%s:ratio_increase%s' % [level, metric, window],
  // quantile(..., 0.99, '1h') is ...:p99_1h
  quantile(level, metric, quantile, window):: '%s:%s:p%s_%s' % [level, metric, std.strReplace('%g' % (quantile * 100), '.', '_'), window],
  mean(level, metric, window):: '%s:%s:mean%s' % [level, metric, window],

  targetFailures(window):: $.increase('job_target_agent', 'handoff_handoffs_failed', window),
  targetSettled(window):: $.increase('job_target_agent', 'handoff_handoffs_settled', window),
  failures(window):: $.increase('job', 'handoff_handoffs_failed', window),
  settled(window):: $.increase('job', 'handoff_handoffs_settled', window),
  failureRatio(window):: $.ratio('job', 'handoff_handoffs_failed_per_settled', window),

  included(window):: $.increase('job', 'handoff_memory_refs_included', window),
  requested(window):: $.increase('job', 'handoff_memory_refs_requested', window),
  completeness(window):: $.ratio('job', 'handoff_memory_refs_included_per_requested', window),
  envelopes(window):: $.increase('job', 'handoff_envelopes', window),
}
