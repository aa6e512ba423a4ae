// SPDX-License-Identifier: Apache-2.0
//
// counters.libsonnet - how much counters grew in a window.
//
// increase() compares samples, so what a process counts before its first scrape is not an increase. A sidecar
// counts much at its start: deadlines that passed while it was down, resumed handoffs that fail, label values
// beyond a limit. So of a process that is younger than the window, counters are taken as they are. So are
// series that began in the window, where not all of them are there from the start.
function(config) {
  local selector(matchers) = '{%s}' % std.join(', ', [config.selector] + matchers),
  local secondsPer = { s: 1, m: 60, h: 3600, d: 86400, w: 604800 },
  local seconds(duration) =
    local last = std.length(duration) - 1;
    std.parseInt(duration[:last]) * secondsPer[duration[last]],

  local sidecar = std.join(', ', config.groupLabels + ['instance']),
  local started = 'process_start_time_seconds' + selector([]),

  // Series of processes that started within the window.
  local ofYoungProcesses(series, window) =
    '%s and on (%s) (time() - %s < %d)' % [series, sidecar, started, seconds(window)],

  // Series that began within the window, though their process was scraped before.
  local begun(series, window) =
    '(%s unless %s offset %s) and on (%s) %s offset %s' % [series, series, window, sidecar, started, window],

  // The greater of both, series by series.
  local greater(increase, whole) = |||
    max without (counted) (
      label_replace(%s, "counted", "increase", "", "")
      or
      label_replace(%s, "counted", "whole", "", "")
    )
  ||| % [increase, whole],

  local indented(text, by) = std.strReplace(std.stripChars(text, '\n'), '\n', '\n' + by),

  local sumBy(labels, expr) =
    'sum by (%s) (\n  %s\n)\n' % [std.join(', ', config.groupLabels + labels), indented(expr, '  ')],

  // Such an expression within a line of another one.
  inside(expr):: indented(expr, '  '),

  // A counter, by these labels. `begins`: its series begin when they are first counted.
  increase(labels, metric, matchers, window, begins=false)::
    local series = metric + selector(matchers);
    local whole = ofYoungProcesses(series, window) + (if begins then ' or ' + begun(series, window) else '');
    sumBy(labels, greater('increase(%s[%s])' % [series, window], whole)),

  // The sum or count of a histogram: separate series when Prometheus scrapes a classic histogram, part of
  // the single series when it scrapes a native one.
  histogramPart(labels, metric, part, window)::
    local classic = '%s_%s%s' % [metric, part, selector([])];
    local native = metric + selector([]);
    sumBy(labels, std.join('or\n', [
      greater('increase(%s[%s])' % [classic, window], ofYoungProcesses(classic, window)),
      greater('histogram_%s(increase(%s[%s]))' % [part, native, window],
              'histogram_%s(%s)' % [part, ofYoungProcesses(native, window)]),
    ])),
}
