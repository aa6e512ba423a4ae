// SPDX-License-Identifier: Apache-2.0
//
// queries.mjs - PromQL in the terms of the product. Every selector takes job and instance from the
// variables, and the target agent if the metric has one.
//
// Queries read raw metrics, not recorded series: those have no instance or target agent, and their names
// change when a user overrides the windows. Sums are divided by sums, as in the rules, and only if the
// divisor is not 0, so no traffic shows as a gap and not as NaN.
//
// Histogram queries use the native form and, if that is not scraped, the classic one.

// The window of a range query: never shorter than four scrapes.
export const moving = '[$__rate_interval]';
// The window of an instant query: the whole time range of the dashboard.
export const shown = '[$__range]';

const scope = 'job=~"$job", instance=~"$instance"';

// {job, instance and more}: for metrics of the whole sidecar.
export const sidecar = (...more) => `{${[scope, ...more].join(', ')}}`;
// The same for metrics of a target agent.
export const target = (...more) => sidecar('target_agent=~"$target_agent"', ...more);
// Alerts carry only the labels of their scope, so a missing label must match too.
export const alerts = (...more) => `{${['job=~"$job"', 'instance=~"$instance|"', ...more].join(', ')}}`;
export const alertsOfTarget = (...more) => alerts('target_agent=~"$target_agent|"', ...more);

const by = (labels) => (labels.length ? ` by (${labels.join(', ')})` : '');

export const sum = (expression, ...labels) => `sum${by(labels)} (${expression})`;
export const max = (expression, ...labels) => `max${by(labels)} (${expression})`;
export const min = (expression, ...labels) => `min${by(labels)} (${expression})`;

export const rate = (counter, selector, ...labels) => sum(`rate(${counter}${selector}${moving})`, ...labels);
export const increase = (counter, selector, window, ...labels) =>
    sum(`increase(${counter}${selector}${window})`, ...labels);

// A share of a whole; empty if the whole is 0.
export const share = (part, whole, matching = '') => `${part}\n/ ${matching}\n(${whole} > 0)`.replace('/ \n', '/\n');

// --- histograms -----------------------------------------------------------------------------------

export function quantile(q, histogram, selector, window, ...labels) {
    const native = sum(`rate(${histogram}${selector}${window})`, ...labels);
    const classic = sum(`rate(${histogram}_bucket${selector}${window})`, ...labels, 'le');
    // NaN, the quantile of nothing, is not >= 0
    return `(histogram_quantile(${q}, ${native}) >= 0)\nor\n(histogram_quantile(${q}, ${classic}) >= 0)`;
}

export function mean(histogram, selector, window, ...labels) {
    const native = sum(`rate(${histogram}${selector}${window})`, ...labels);
    const classic = (part) => sum(`rate(${histogram}_${part}${selector}${window})`, ...labels);
    return `(histogram_sum(${native}) / (histogram_count(${native}) > 0))\nor\n` +
        `(${classic('sum')} / (${classic('count')} > 0))`;
}

// Observations: per second in a moving window, all of them in the window shown.
export function observations(histogram, selector, window, ...labels) {
    const of = window === moving ? 'rate' : 'increase';
    return `histogram_count(${sum(`${of}(${histogram}${selector}${window})`, ...labels)})\nor\n` +
        sum(`${of}(${histogram}_count${selector}${window})`, ...labels);
}

// The two queries of a heatmap; the second is empty if the first is not, or every handoff would be drawn
// twice when both forms are scraped.
export function heat(histogram, selector) {
    const native = sum(`increase(${histogram}${selector}${moving})`);
    const classic = sum(`increase(${histogram}_bucket${selector}${moving})`, 'le');
    return { native, classic: `${classic}\nunless on ()\n${native}` };
}

// --- the measures of the specification ------------------------------------------------------------

export const handoffs = 'handoff_handoffs_total';
// Handoffs that a circuit or the hop limit stopped were never attempted and are not in the failure rate.
const settled = 'outcome=~"acknowledged|exhausted|rejected|refused|expired"';

export const failureRate = (window, ...labels) => share(
    increase(handoffs, target('outcome=~"exhausted|rejected"'), window, ...labels),
    increase(handoffs, target(settled), window, ...labels),
);
export const settledHandoffs = (window, ...labels) => increase(handoffs, target(settled), window, ...labels);

export const completeness = (window, ...labels) => share(
    increase('handoff_memory_refs_total', target('outcome="included"'), window, ...labels),
    increase('handoff_memory_refs_total', target(), window, ...labels),
);

// Requested memories that were missing or trimmed, each as a share of all.
export const lost = (window) => share(
    increase('handoff_memory_refs_total', target('outcome=~"missing|trimmed"'), window, 'outcome'),
    increase('handoff_memory_refs_total', target(), window),
    'ignoring (outcome) group_left ()',
);

// What could go into envelopes and was omitted, by kind, as a share of all of that kind.
export const omitted = (window) => share(
    increase('handoff_context_items_total', target('outcome="omitted"'), window, 'kind'),
    increase('handoff_context_items_total', target(), window, 'kind'),
);

export const latency = (q, window, ...labels) =>
    quantile(q, 'handoff_duration_seconds', target('outcome="acknowledged"'), window, ...labels);

export const utilization = (window, ...labels) =>
    mean('handoff_token_utilization_ratio', target(), window, ...labels);

export const hopDepth = (window, ...labels) => mean('handoff_hop_depth', sidecar(), window, ...labels);

// 0 closed, 1 half open, 2 open; the worst of several sidecars counts.
export const circuit = (...labels) => max(
    `handoff_circuit_state${target('state="half_open"')}\n` +
    `+ ignoring (state)\n2 * handoff_circuit_state${target('state="open"')}`, ...labels);
