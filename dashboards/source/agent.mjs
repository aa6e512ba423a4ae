// SPDX-License-Identifier: Apache-2.0
//
// agent.mjs - one target agent (or a few, side by side): latency, reliability, context completeness, and
// its backlog.
import { limits, uids } from './config.mjs';
import {
    circuitStates, falling, good, heatmap, lines, neutral, now, override, dashes, rising, series, stat, states, warn,
} from './panels.mjs';
import {
    circuit, completeness, failureRate, handoffs, heat, increase, latency, lost, max, mean, moving, omitted, quantile, rate,
    shown, sum, target, utilization,
} from './queries.mjs';

const { failureRate: failing, completeness: complete, timeout, timeoutShare, utilization: used } = limits;
const slow = rising(timeoutShare * timeout, timeout);
const budget = [[neutral, null], [good, used.underused], [warn, used.full]];

// --- now --------------------------------------------------------------------------------------------

const circuitStat = stat({
    title: 'Circuit', width: 3, unit: 'short', background: true, mappings: circuitStates, steps: rising(1, 2),
    queries: [now(circuit())],
    about: 'The circuit breaker: closed lets handoffs through, open rejects them, half open tries one. The worst of the current selection.',
    good: 'closed.',
    otherwise: 'several handoffs in a row failed; the attempts below show how. It closes automatically after a successful probe.',
    runbooks: ['HandoffCircuitOpen'],
});

const failureStat = stat({
    title: 'Failure rate', width: 3, unit: 'percentunit', decimals: 2, noValue: 'no handoffs',
    steps: rising(failing.elevated, failing.critical),
    queries: [now(failureRate(shown))],
    about: 'Share of the handoffs that used up all retries, over the time shown.',
    good: 'under 0.5 %.',
    otherwise: 'see attempts by result: timeout (too slow), connect (unreachable), http and protocol (wrong answers).',
    runbooks: ['HandoffFailureRateElevated'],
});

const latencyStat = stat({
    title: 'Latency, p99', width: 3, unit: 's', decimals: 2, noValue: 'no handoffs', steps: slow,
    queries: [now(latency(0.99, shown))],
    about: 'One in a hundred acknowledged handoffs took longer, over the time shown.',
    good: 'far below the timeout, 15 s by default.',
    otherwise: 'above 12 s, the agent is overloaded, or does its work before acknowledging (have it answer 202 and acknowledge later).',
    runbooks: ['HandoffLatencyHigh'],
});

const completenessStat = stat({
    title: 'Completeness', width: 3, unit: 'percentunit', decimals: 1, noValue: 'none requested',
    steps: falling(complete.critical, complete.low),
    queries: [now(completeness(shown))],
    about: 'Share of the requested memories that this agent received, over the time shown.',
    good: '95 % or more.',
    otherwise: 'see below whether memories were missing or trimmed.',
    runbooks: ['HandoffCompletenessLow'],
});

const utilizationStat = stat({
    title: 'Utilization', width: 3, unit: 'percentunit', decimals: 0, noValue: 'no handoffs', steps: budget,
    queries: [now(utilization(shown))],
    about: 'Mean share of its token budget that its envelopes use, over the time shown.',
    good: 'between 20 % and 90 %.',
    otherwise: 'above 90 % with trimming, raise its token_budget or have senders request less; below 20 %, lower it.',
    runbooks: ['HandoffContextTrimmed', 'HandoffBudgetUnderused'],
});

const failuresStat = stat({
    title: 'Failed in a row', width: 3, unit: 'short', steps: rising(1, limits.consecutiveFailures),
    queries: [now(max(`handoff_consecutive_failures${target()}`))],
    about: 'Handoffs that failed in a row; the next success resets it to 0. By default the circuit opens at three.',
    good: '0.',
    otherwise: 'the agent is down, is crash-looping, or answers without naming the handoff: try `handoffctl send` against it.',
    runbooks: ['HandoffConsecutiveFailures'],
});

const parkedStat = stat({
    title: 'Parked', width: 3, unit: 'locale', steps: [[good, null], [warn, 1]],
    queries: [now(sum(`handoff_parked_entries${target()}`))],
    about: 'Handoffs to this agent that wait for an operator.',
    good: '0.',
    otherwise: 'once the agent has recovered, `handoffctl parked list --target NAME`, then replay or discard.',
    runbooks: ['HandoffParkedWaiting'],
});

const inFlightStat = stat({
    title: 'In flight', width: 3, unit: 'locale',
    queries: [now(sum(`handoff_in_flight${target()}`))],
    about: 'Accepted handoffs to this agent that have not finished.',
    good: 'small and moving.',
    otherwise: 'if it grows, the agent takes work without acknowledging it, or does not pull from its inbox.',
});

// --- latency ----------------------------------------------------------------------------------------

const latencyHeat = heatmap({
    title: 'Latency of acknowledged handoffs', unit: 's', exemplar: true,
    queries: heat('handoff_duration_seconds', target('outcome="acknowledged"')),
    about: 'Distribution of the time from acceptance to acknowledgement. Points are single handoffs, with their trace and handoff id.',
    good: 'one narrow warm band, far below 15 s.',
    otherwise: 'a second band above the first means retries (at the distance of the backoff) or a slower kind of work; a climbing band means overload. Click a point to see the handoff.',
    runbooks: ['HandoffLatencyHigh'],
});

const latencyLines = lines({
    title: 'Latency and timeout', unit: 's', height: 9, interval: '1m', line: true, log: true, steps: slow, names: ['p50', 'p95', 'p99'],
    queries: [
        ...[['p50', 0.5], ['p95', 0.95], ['p99', 0.99]].map(([name, q]) => series(latency(q, moving), name, { exemplar: true })),
        series(max(`handoff_agent_timeout_seconds${target()}`, 'target_agent'), 'timeout of {{target_agent}}'),
    ],
    about: 'Quantiles of the time from acceptance to acknowledgement, and the timeout of each agent; 80 % of it is the alert threshold. The red line is the default timeout of one attempt, 15 s, the orange line 80 % of that.',
    good: 'flat, with room below the timeout.',
    otherwise: 'if p50 rises too, the agent is slow for all handoffs; only p99: retries or occasional large tasks.',
    runbooks: ['HandoffLatencyHigh'],
});

// --- reliability ------------------------------------------------------------------------------------

const circuitLine = states({
    title: 'Circuit over time', unit: 'short', mappings: circuitStates, steps: rising(1, 2), height: 6,
    queries: [series(circuit('target_agent'), '{{target_agent}}')],
    about: 'The circuit state of each selected agent; the worst of several sidecars.',
    good: 'green throughout.',
    otherwise: 'red after each orange: probes fail and the agent is still down. Occasional short red: it cannot take the load.',
    runbooks: ['HandoffCircuitOpen'],
});

const outcomeBars = lines({
    title: 'Outcomes', unit: 'suffix: /s', stack: 'normal', min: 0, interval: '30s',
    names: ['acknowledged', 'exhausted', 'rejected', 'refused', 'expired', 'hop_limit', 'circuit_open'],
    queries: [series(rate(handoffs, target(), 'outcome'), '{{outcome}}')],
    about: 'Finished handoffs per second, by outcome.',
    good: 'green.',
    otherwise: 'exhausted: no attempt was acknowledged; rejected: wrong url or token; refused: by the agent; expired: the deadline passed; circuit_open: not sent.',
    runbooks: ['HandoffFailed', 'HandoffRefused', 'HandoffMostlyRefused', 'HandoffExpired'],
});

const attemptLines = lines({
    title: 'Attempts by result', unit: 'suffix: /s', stack: 'normal', min: 0,
    names: ['ack', 'nack', 'timeout', 'connect', 'http', 'protocol'],
    queries: [series(rate('handoff_attempts_total', target(), 'result'), '{{result}}')],
    about: 'Delivery attempts by result. More attempts than outcomes means retries.',
    good: 'ack, as many as there are outcomes.',
    otherwise: 'timeout: too slow; connect: down or wrong address; http: it answers with errors; protocol: it does not name the handoff it acknowledges; nack: it refuses.',
    runbooks: ['HandoffFailed', 'HandoffConsecutiveFailures'],
});

const failureLines = lines({
    title: 'Failure rate over time', unit: 'percentunit', line: true, min: 0, softMax: 0.03, width: 6, interval: '1m',
    steps: rising(failing.elevated, failing.critical),
    queries: [series(failureRate(moving, 'target_agent'), '{{target_agent}}')],
    about: 'Share of the handoffs that used up all retries. The lines are at 0.5 % and 2 %.',
    good: '0.',
    otherwise: 'compare with attempts by result above: the results before the failures show why.',
    runbooks: ['HandoffFailureRateElevated', 'HandoffFailureRateCritical'],
});

const retryLines = lines({
    title: 'Attempts per handoff', unit: 'short', decimals: 2, min: 0, width: 6, interval: '1m',
    queries: [series(
        `${rate('handoff_attempts_total', target(), 'target_agent')}\n/\n(${rate(handoffs, target('outcome!~"hop_limit|circuit_open"'), 'target_agent')} > 0)`,
        '{{target_agent}}')],
    about: 'How many attempts a handoff takes.',
    good: '1.',
    otherwise: 'above 1 means retries, which cost time and add load; near 4, everything is exhausted.',
});

const openedLines = lines({
    title: 'Circuit openings', unit: 'short', bars: true, min: 0, width: 6,
    queries: [series(increase('handoff_circuit_opened_total', target(), moving, 'target_agent'), '{{target_agent}}')],
    about: 'How often the circuit opened, including after failed probes and between two scrapes.',
    good: 'none.',
    otherwise: 'single openings: the agent restarted; a series of them: it stays down.',
    runbooks: ['HandoffCircuitOpen'],
});

// --- context ----------------------------------------------------------------------------------------

const completenessLines = lines({
    title: 'Completeness over time', unit: 'percentunit', line: true, min: 0, max: 1, width: 8,
    steps: falling(complete.critical, complete.low),
    queries: [series(completeness(moving, 'target_agent'), '{{target_agent}}')],
    about: 'Share of the requested memories that arrived. The lines are at 80 % and 95 %.',
    good: 'above the upper line.',
    otherwise: 'the next panel shows whether they were missing or trimmed.',
    runbooks: ['HandoffCompletenessLow', 'HandoffCompletenessCritical'],
});

const lostLines = lines({
    title: 'Memories missing and trimmed', unit: 'percentunit', stack: 'normal', min: 0, softMax: 0.1, width: 8,
    names: ['missing', 'trimmed'],
    queries: [series(lost(moving), '{{outcome}}')],
    about: 'Share of the requested memories that the spine could not provide, and that had no room even by their ids.',
    good: 'close to 0.',
    otherwise: 'missing: deleted ids, or the spine is down; trimmed: the budget is too small for what is requested.',
    runbooks: ['HandoffContextTrimmed', 'HandoffSpineDown'],
});

const omittedLines = lines({
    title: 'Omitted to fit the budget', unit: 'percentunit', min: 0, max: 1, width: 8, interval: '1m',
    queries: [series(omitted(moving), '{{kind}}')],
    about: 'Of each kind, the share of what its tasks had that envelopes left out: decisions, open questions, remaining work, steps, ' +
        'memories that were requested, and memories that were found.',
    good: 'close to 0; steps and found memories give way first.',
    otherwise: 'raise its token_budget, or have senders resolve what is over and store summaries with large memories.',
    runbooks: ['HandoffContextTrimmed'],
});

const recoveryLines = lines({
    title: 'Missing memories recovered and flagged', unit: 'short', bars: true, min: 0, width: 8,
    names: ['recovered', 'stale', 'missing'],
    queries: [series(increase('handoff_memory_recovery_total', target(), moving, 'outcome'), '{{outcome}}')],
    about: 'Memories that envelopes lacked: those that the agent fetched later, and those that it flagged and worked without.',
    good: 'none; or recovered ones alone.',
    otherwise: 'missing: the agent works with incomplete context; `handoffctl status` of its handoffs lists what it lacks.',
    runbooks: ['HandoffContextUnrecovered'],
});

const utilizationLines = lines({
    title: 'Token utilization', unit: 'percentunit', line: true, min: 0, max: 1, width: 8, steps: budget, interval: '2m',
    queries: [
        series(utilization(moving, 'target_agent'), 'mean {{target_agent}}'),
        series(quantile(0.95, 'handoff_token_utilization_ratio', target(), moving, 'target_agent'), 'p95 {{target_agent}}'),
    ],
    about: 'Share of the token budget that envelopes use. The lines are at 20 % and 90 %.',
    good: 'the mean between the lines.',
    otherwise: 'p95 at 100 % with much omitted: the budget is too small; both low for a day: it is too large.',
    runbooks: ['HandoffContextTrimmed', 'HandoffBudgetUnderused'],
});

const tokenLines = lines({
    title: 'Envelope size', unit: 'suffix: tokens', decimals: 0, min: 0, width: 8, interval: '2m',
    queries: [
        series(mean('handoff_envelope_tokens', target(), moving, 'target_agent'), 'mean {{target_agent}}'),
        series(quantile(0.95, 'handoff_envelope_tokens', target(), moving, 'target_agent'), 'p95 {{target_agent}}'),
    ],
    about: 'Tokens of the context that the agent receives.',
    good: 'steady, and well inside the context window of its model.',
    otherwise: 'growth along a pipeline means that history accumulates: include fewer memories, or summarize.',
});

// --- backlog ----------------------------------------------------------------------------------------

const inFlightLines = lines({
    title: 'In flight over time', unit: 'short', min: 0, width: 6,
    queries: [series(sum(`handoff_in_flight${target()}`, 'target_agent'), '{{target_agent}}')],
    about: 'Accepted handoffs that have not finished.',
    good: 'small, and 0 when idle.',
    otherwise: 'if it grows, work arrives faster than the agent finishes it.',
});

const ageLines = lines({
    title: 'Oldest in flight and parked', unit: 's', min: 0, width: 6,
    queries: [
        series(max(`handoff_oldest_in_flight_seconds${target()}`, 'target_agent'), 'in flight {{target_agent}}'),
        series(max(`handoff_oldest_parked_seconds${target()}`, 'target_agent'), 'parked {{target_agent}}'),
    ],
    about: 'How long the oldest handoff has been in flight, and how long the oldest parked one has waited for an operator.',
    good: 'in flight: seconds; parked: 0.',
    otherwise: 'parked for an hour opens a ticket: `handoffctl parked list`; in flight for long: a promised acknowledgement is not arriving.',
    runbooks: ['HandoffParkedWaiting'],
});

const parkedLines = lines({
    title: 'Parked and replayed', unit: 'short', bars: true, min: 0, width: 6,
    queries: [
        series(increase('handoff_parked_total', target(), moving, 'reason'), 'parked: {{reason}}'),
        series(increase('handoff_replayed_total', target(), moving), 'replayed'),
    ],
    overrides: [override('replayed', ...dashes(good))],
    about: 'Handoffs that were parked, by reason, and parked handoffs that were replayed.',
    good: 'none.',
    otherwise: 'every parked handoff needs a decision; if replayed handoffs are parked again, the cause persists.',
    runbooks: ['HandoffParkedWaiting'],
});

const consecutiveLines = lines({
    title: 'Failed in a row over time', unit: 'short', line: true, min: 0, softMax: 4, width: 6, steps: rising(1, limits.consecutiveFailures),
    queries: [series(max(`handoff_consecutive_failures${target()}`, 'target_agent'), '{{target_agent}}')],
    about: 'Handoffs that failed in a row; the next success resets it to 0. The red line is the alert threshold.',
    good: '0.',
    otherwise: 'a steadily climbing staircase: the agent is down; single steps: some of its work fails.',
    runbooks: ['HandoffConsecutiveFailures'],
});

const refusalLines = lines({
    title: 'Refused in a row over time', unit: 'short', line: true, min: 0, softMax: 4, width: 8, steps: rising(1, limits.consecutiveRefusals),
    queries: [series(max(`handoff_consecutive_refusals${target()}`, 'target_agent'), '{{target_agent}}')],
    about: 'Handoffs that the agent refused in a row; the next acknowledgement resets it to 0. The red line is the alert threshold.',
    good: '0.',
    otherwise: 'it answers, but takes nothing: see its reasons in `handoffctl parked list --reason refused`.',
    runbooks: ['HandoffRefusedRepeatedly', 'HandoffMostlyRefused'],
});

const inboxLines = lines({
    title: 'Inbox', unit: 'short', min: 0, width: 8,
    queries: [series(sum(`handoff_inbox_waiting${target()}`, 'target_agent'), '{{target_agent}}')],
    about: 'Handoffs in the inboxes of agents that pull, which no poll has taken yet.',
    good: 'back to 0 all the time.',
    otherwise: 'if it only grows, the agent is not polling.',
    runbooks: ['HandoffInboxUnattended'],
    empty: 'Empty until an agent that pulls is configured.',
});

const polledLines = lines({
    title: 'Time since the last poll', unit: 's', line: true, min: 0, width: 8, steps: [[good, null], [warn, limits.unpolled]],
    queries: [series(`time() - ${max(`handoff_inbox_last_poll_timestamp_seconds${target()}`, 'target_agent')}`, '{{target_agent}}')],
    about: 'How long ago each inbox was polled. The line at five minutes is the alert threshold, if work is waiting.',
    good: 'seconds.',
    otherwise: 'a line that climbs at 45 degrees: the agent has stopped.',
    runbooks: ['HandoffInboxUnattended'],
    empty: 'Empty until an agent that pulls is configured.',
});

const parkedNow = lines({
    title: 'Parked over time', unit: 'short', min: 0, width: 6,
    queries: [series(sum(`handoff_parked_entries${target()}`, 'target_agent'), '{{target_agent}}')],
    about: 'Handoffs that wait for an operator.',
    good: '0.',
    otherwise: 'it drops only when handoffs are replayed or discarded.',
    runbooks: ['HandoffParkedWaiting'],
});

export const agent = {
    uid: uids.agent,
    title: 'Handoff / Agent',
    description: 'One target agent: latency, outcomes and attempts, its circuit, its context, and its backlog.',
    variables: ['target_agent'],
    rows: [
        ['', [
            circuitStat, failureStat, latencyStat, completenessStat, utilizationStat, failuresStat, parkedStat, inFlightStat,
        ]],
        ['Latency', [latencyHeat, latencyLines]],
        ['Reliability', [circuitLine, outcomeBars, attemptLines, failureLines, consecutiveLines, retryLines, openedLines]],
        ['Context', [completenessLines, lostLines, omittedLines, recoveryLines, utilizationLines, tokenLines]],
        ['Backlog', [inFlightLines, ageLines, parkedNow, parkedLines]],
        ['Refusals and inboxes', [refusalLines, inboxLines, polledLines]],
    ],
};
