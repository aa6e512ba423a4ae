// SPDX-License-Identifier: Apache-2.0
//
// agent.mjs - one target agent (or a few, beside each other): how fast, how reliable, with how much of its
// context, and what waits.
import { limits, uids } from './config.mjs';
import {
    circuitStates, falling, good, heatmap, lines, neutral, now, override, dashes, rising, series, stat, states, warn,
} from './panels.mjs';
import {
    circuit, completeness, failureRate, handoffs, heat, increase, latency, lost, max, mean, moving, quantile, rate,
    shown, sum, target, utilization,
} from './queries.mjs';

const { failureRate: failing, completeness: complete, timeout, timeoutShare, utilization: used } = limits;
const slow = rising(timeoutShare * timeout, timeout);
const budget = [[neutral, null], [good, used.underused], [warn, used.full]];

// --- now --------------------------------------------------------------------------------------------

const circuitStat = stat({
    title: 'Circuit', width: 3, unit: 'short', background: true, mappings: circuitStates, steps: rising(1, 2),
    queries: [now(circuit())],
    about: 'The circuit breaker: closed lets handoffs through, open turns them away, half open tries one. The worst of what is selected.',
    good: 'closed.',
    otherwise: 'the agent failed several handoffs in a row; its attempts below say how. It closes by itself after a successful probe.',
    runbooks: ['HandoffCircuitOpen'],
});

const failureStat = stat({
    title: 'Failure rate', width: 3, unit: 'percentunit', decimals: 2, noValue: 'no handoffs',
    steps: rising(failing.elevated, failing.critical),
    queries: [now(failureRate(shown))],
    about: 'Share of the handoffs that used up all retries, over the time shown.',
    good: 'under 0.5 %.',
    otherwise: 'see attempts by result: timeout (too slow), connect (not there), http and protocol (wrong answers).',
    runbooks: ['HandoffFailureRateElevated'],
});

const latencyStat = stat({
    title: 'Latency, p99', width: 3, unit: 's', decimals: 2, noValue: 'no handoffs', steps: slow,
    queries: [now(latency(0.99, shown))],
    about: 'One in a hundred acknowledged handoffs took longer, over the time shown.',
    good: 'far below the time-out, 15 s by default.',
    otherwise: 'above 12 s: the agent is overloaded, or works before it acknowledges (let it answer 202 and acknowledge later).',
    runbooks: ['HandoffLatencyHigh'],
});

const completenessStat = stat({
    title: 'Completeness', width: 3, unit: 'percentunit', decimals: 1, noValue: 'nothing asked for',
    steps: falling(complete.critical, complete.low),
    queries: [now(completeness(shown))],
    about: 'Share of the memories asked for that this agent received, over the time shown.',
    good: '95 % or more.',
    otherwise: 'see what became of memories below: missing or trimmed.',
    runbooks: ['HandoffCompletenessLow'],
});

const utilizationStat = stat({
    title: 'Utilization', width: 3, unit: 'percentunit', decimals: 0, noValue: 'no handoffs', steps: budget,
    queries: [now(utilization(shown))],
    about: 'Mean share of its token budget that its envelopes use, over the time shown.',
    good: 'between 20 % and 90 %.',
    otherwise: 'above 90 % with trimming: raise its token_budget or let senders ask for less; below 20 %: lower it.',
    runbooks: ['HandoffContextTrimmed', 'HandoffBudgetUnderused'],
});

const failuresStat = stat({
    title: 'Failed in a row', width: 3, unit: 'short', steps: rising(1, limits.consecutiveFailures),
    queries: [now(max(`handoff_consecutive_failures${target()}`))],
    about: 'Handoffs that failed one after another; the next success sets it to 0. At three the circuit opens by default.',
    good: '0.',
    otherwise: 'the agent is down, restarts in a loop, or answers without naming the handoff: try `handoffctl send` against it.',
    runbooks: ['HandoffConsecutiveFailures'],
});

const parkedStat = stat({
    title: 'Parked', width: 3, unit: 'locale', steps: [[good, null], [warn, 1]],
    queries: [now(sum(`handoff_parked_entries${target()}`))],
    about: 'Handoffs to this agent that wait for a person.',
    good: '0.',
    otherwise: 'once the agent is well: `handoffctl parked list --target NAME`, then replay or discard.',
    runbooks: ['HandoffParkedWaiting'],
});

const inFlightStat = stat({
    title: 'In flight', width: 3, unit: 'locale',
    queries: [now(sum(`handoff_in_flight${target()}`))],
    about: 'Handoffs that were accepted for this agent and have not ended.',
    good: 'small and moving.',
    otherwise: 'if it grows, the agent takes work without acknowledging it, or does not collect its inbox.',
});

// --- latency ----------------------------------------------------------------------------------------

const latencyHeat = heatmap({
    title: 'Latency of acknowledged handoffs', unit: 's', exemplar: true,
    queries: heat('handoff_duration_seconds', target('outcome="acknowledged"')),
    about: 'How many handoffs took how long, from acceptance to acknowledgement. Points are single handoffs, with their trace and handoff id.',
    good: 'one narrow warm band, far below 15 s.',
    otherwise: 'a second band above the first is retries (their distance is the backoff) or a slow kind of work; a band that climbs is overload. Open a point to see which handoff it was.',
    runbooks: ['HandoffLatencyHigh'],
});

const latencyLines = lines({
    title: 'Latency against the time-out', unit: 's', height: 9, line: true, log: true, steps: slow, names: ['p50', 'p95', 'p99'],
    queries: [['p50', 0.5], ['p95', 0.95], ['p99', 0.99]].map(([name, q]) => series(latency(q, moving), name, { exemplar: true })),
    about: 'Quantiles of the time from acceptance to acknowledgement. The red line is the default time-out of one attempt, 15 s; the orange one, 80 % of it, is where the alert begins.',
    good: 'flat, with room below the orange line.',
    otherwise: 'p50 rises too: the agent is slow for all; only p99: retries or single large tasks.',
    runbooks: ['HandoffLatencyHigh'],
});

// --- reliability ------------------------------------------------------------------------------------

const circuitLine = states({
    title: 'Circuit over time', unit: 'short', mappings: circuitStates, steps: rising(1, 2), height: 6,
    queries: [series(circuit('target_agent'), '{{target_agent}}')],
    about: 'The state of the circuit of each selected agent; of several sidecars the worst.',
    good: 'green throughout.',
    otherwise: 'red that comes back after each orange: probes fail, the agent is still down. Short red now and then: it cannot take the load.',
    runbooks: ['HandoffCircuitOpen'],
});

const outcomeBars = lines({
    title: 'Outcomes', unit: 'suffix: /s', stack: 'normal', min: 0,
    names: ['acknowledged', 'exhausted', 'refused', 'expired', 'hop_limit', 'circuit_open'],
    queries: [series(rate(handoffs, target(), 'outcome'), '{{outcome}}')],
    about: 'Handoffs that ended, each second, by how they ended.',
    good: 'green.',
    otherwise: 'exhausted: no acknowledgement in any attempt; refused: the agent says no; expired: the deadline passed; circuit_open: turned away.',
    runbooks: ['HandoffFailed'],
});

const attemptLines = lines({
    title: 'Attempts by result', unit: 'suffix: /s', stack: 'normal', min: 0,
    names: ['ack', 'nack', 'timeout', 'connect', 'http', 'protocol'],
    queries: [series(rate('handoff_attempts_total', target(), 'result'), '{{result}}')],
    about: 'Every try to deliver, by what came of it. More attempts than outcomes are retries.',
    good: 'ack, as many as there are outcomes.',
    otherwise: 'timeout: too slow; connect: down or wrong address; http: it answers errors; protocol: it does not name the handoff it acknowledges; nack: it refuses.',
    runbooks: ['HandoffFailed', 'HandoffConsecutiveFailures'],
});

const failureLines = lines({
    title: 'Failure rate over time', unit: 'percentunit', line: true, min: 0, softMax: 0.03, width: 6,
    steps: rising(failing.elevated, failing.critical),
    queries: [series(failureRate(moving, 'target_agent'), '{{target_agent}}')],
    about: 'Share of the handoffs that used up all retries. The lines are at 0.5 % and 2 %.',
    good: '0.',
    otherwise: 'compare with attempts by result above: the results before the failures say why.',
    runbooks: ['HandoffFailureRateElevated', 'HandoffFailureRateCritical'],
});

const retryLines = lines({
    title: 'Attempts for each handoff', unit: 'short', decimals: 2, min: 0, width: 6,
    queries: [series(
        `${rate('handoff_attempts_total', target(), 'target_agent')}\n/\n(${rate(handoffs, target('outcome!~"hop_limit|circuit_open"'), 'target_agent')} > 0)`,
        '{{target_agent}}')],
    about: 'How many tries a handoff needs until it ends.',
    good: '1.',
    otherwise: 'above 1 are retries, which cost time and load; towards 4 everything is exhausted.',
});

const openedLines = lines({
    title: 'Circuit openings', unit: 'short', bars: true, min: 0, width: 6,
    queries: [series(increase('handoff_circuit_opened_total', target(), moving, 'target_agent'), '{{target_agent}}')],
    about: 'Times the circuit opened, probes that failed included; also those that were over before the next scrape.',
    good: 'none.',
    otherwise: 'one at a time: the agent restarted; a row of them: it stays down.',
    runbooks: ['HandoffCircuitOpen'],
});

// --- context ----------------------------------------------------------------------------------------

const completenessLines = lines({
    title: 'Completeness over time', unit: 'percentunit', line: true, min: 0, max: 1, width: 6,
    steps: falling(complete.critical, complete.low),
    queries: [series(completeness(moving, 'target_agent'), '{{target_agent}}')],
    about: 'Share of the memories asked for that arrived. The lines are at 80 % and 95 %.',
    good: 'above the upper line.',
    otherwise: 'see beside it whether they were missing or trimmed.',
    runbooks: ['HandoffCompletenessLow', 'HandoffCompletenessCritical'],
});

const lostLines = lines({
    title: 'Memories missing and trimmed', unit: 'percentunit', stack: 'normal', min: 0, softMax: 0.1, width: 6,
    names: ['missing', 'trimmed'],
    queries: [series(lost(moving), '{{outcome}}')],
    about: 'Share of the memories asked for that the spine did not have, and that were left out to fit the budget.',
    good: 'close to 0.',
    otherwise: 'missing: ids that were deleted, or the spine is down; trimmed: the budget is too small for what is asked for.',
    runbooks: ['HandoffContextTrimmed', 'HandoffSpineDown'],
});

const utilizationLines = lines({
    title: 'Token utilization', unit: 'percentunit', line: true, min: 0, max: 1, width: 6, steps: budget,
    queries: [
        series(utilization(moving, 'target_agent'), 'mean {{target_agent}}'),
        series(quantile(0.95, 'handoff_token_utilization_ratio', target(), moving, 'target_agent'), 'p95 {{target_agent}}'),
    ],
    about: 'Share of the token budget that envelopes use. The lines are at 20 % and 90 %.',
    good: 'the mean between the lines.',
    otherwise: 'p95 at 100 % with memories trimmed: the budget is too small; both low for a day: it is too large.',
    runbooks: ['HandoffContextTrimmed', 'HandoffBudgetUnderused'],
});

const tokenLines = lines({
    title: 'Envelope size', unit: 'suffix: tokens', decimals: 0, min: 0, width: 6,
    queries: [
        series(mean('handoff_envelope_tokens', target(), moving, 'target_agent'), 'mean {{target_agent}}'),
        series(quantile(0.95, 'handoff_envelope_tokens', target(), moving, 'target_agent'), 'p95 {{target_agent}}'),
    ],
    about: 'Tokens of the context that the agent receives.',
    good: 'steady, and well inside the context window of its model.',
    otherwise: 'growing along a pipeline means that history is dragged along: raise fewer memories, or summarise.',
});

// --- what waits -------------------------------------------------------------------------------------

const inFlightLines = lines({
    title: 'In flight over time', unit: 'short', min: 0, width: 6,
    queries: [series(sum(`handoff_in_flight${target()}`, 'target_agent'), '{{target_agent}}')],
    about: 'Handoffs that were accepted and have not ended.',
    good: 'small, and back to 0 in quiet hours.',
    otherwise: 'growing: the agent is slower than its work comes in.',
});

const ageLines = lines({
    title: 'Oldest in flight and parked', unit: 's', min: 0, width: 6,
    queries: [
        series(max(`handoff_oldest_in_flight_seconds${target()}`, 'target_agent'), 'in flight {{target_agent}}'),
        series(max(`handoff_oldest_parked_seconds${target()}`, 'target_agent'), 'parked {{target_agent}}'),
    ],
    about: 'How long the oldest handoff has been in flight, and how long the oldest parked one has waited for a person.',
    good: 'in flight: seconds; parked: 0.',
    otherwise: 'parked for an hour is a ticket: `handoffctl parked list`; in flight for long: an acknowledgement that was promised does not come.',
    runbooks: ['HandoffParkedWaiting'],
});

const parkedLines = lines({
    title: 'Parked and replayed', unit: 'short', bars: true, min: 0, width: 6,
    queries: [
        series(increase('handoff_parked_total', target(), moving, 'reason'), 'parked: {{reason}}'),
        series(increase('handoff_replayed_total', target(), moving), 'replayed'),
    ],
    overrides: [override('replayed', ...dashes(good))],
    about: 'Handoffs that were parked, by why, and parked ones that somebody sent again.',
    good: 'none.',
    otherwise: 'every parked handoff needs one decision; replayed ones that are parked again have a cause that is still there.',
    runbooks: ['HandoffParkedWaiting'],
});

const consecutiveLines = lines({
    title: 'Failed in a row over time', unit: 'short', line: true, min: 0, softMax: 4, width: 6, steps: rising(1, limits.consecutiveFailures),
    queries: [series(max(`handoff_consecutive_failures${target()}`, 'target_agent'), '{{target_agent}}')],
    about: 'Handoffs that failed one after another; the next success sets it to 0. The red line is where the warning fires.',
    good: '0.',
    otherwise: 'a staircase that only climbs: the agent is down; single steps: some of its work fails.',
    runbooks: ['HandoffConsecutiveFailures'],
});

const parkedNow = lines({
    title: 'Parked over time', unit: 'short', min: 0, width: 6,
    queries: [series(sum(`handoff_parked_entries${target()}`, 'target_agent'), '{{target_agent}}')],
    about: 'Handoffs that wait for a person.',
    good: '0.',
    otherwise: 'it only falls when somebody replays or discards.',
    runbooks: ['HandoffParkedWaiting'],
});

export const agent = {
    uid: uids.agent,
    title: 'Handoff / Agent',
    description: 'One target agent: latency, outcomes and attempts, its circuit, its context, and what waits.',
    variables: ['target_agent'],
    rows: [
        ['', [
            circuitStat, failureStat, latencyStat, completenessStat, utilizationStat, failuresStat, parkedStat, inFlightStat,
        ]],
        ['Latency', [latencyHeat, latencyLines]],
        ['Reliability', [circuitLine, outcomeBars, attemptLines, failureLines, consecutiveLines, retryLines, openedLines]],
        ['Context', [completenessLines, lostLines, utilizationLines, tokenLines]],
        ['What waits', [inFlightLines, ageLines, parkedNow, parkedLines]],
    ],
};
