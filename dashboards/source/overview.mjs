// SPDX-License-Identifier: Apache-2.0
//
// overview.mjs - is it healthy? The specification's five measures, firing alerts, and the worst agent, which
// is one click away.
import { limits, uids } from './config.mjs';
import {
    bad, circuitStates, falling, gauge, good, lines, mapping, neutral, now, override, rising, rows, series, stat, steps, table,
    text, warn,
} from './panels.mjs';
import {
    alertsOfTarget, circuit, completeness, failureRate, handoffs, hopDepth, latency, lost, max, moving, rate, settledHandoffs,
    shown, sidecar, sum, target, utilization,
} from './queries.mjs';

const { failureRate: failing, completeness: complete, timeout, timeoutShare, utilization: used } = limits;

// A link from a cell to a dashboard, which keeps the current selection and adds the cell's value.
const kept = '${datasource:queryparam}&${job:queryparam}&${__url_time_range}';
const open = (title, uid, variable, more) => ({ title, url: `/d/${uid}?${kept}${more}&var-${variable}=\${__value.text}` });
const toAgent = open('Open this agent', uids.agent, 'target_agent', '&${instance:queryparam}');
const toSidecar = open('Open this sidecar', uids.sidecar, 'instance', '');

const firing = (severity) => `ALERTS${alertsOfTarget('alertstate="firing"', `severity="${severity}"`)}`;

// --- first row: now ---------------------------------------------------------------------------------

const firingAlerts = stat({
    title: 'Firing alerts', width: 4, unit: 'short', names: true,
    queries: [
        now(`count(${firing('critical')}) or vector(0)`, 'critical'),
        now(`count(${firing('warning')}) or vector(0)`, 'warning'),
    ],
    steps: [[good, null], [warn, 1]],
    overrides: [override('critical', steps([good, null], [bad, 1]))],
    about: 'Firing alerts for the current selection. Critical alerts page, warnings open tickets.',
    good: 'both are 0.',
    otherwise: 'the table below lists them, each with its agent and its runbook.',
});

const failureStat = stat({
    title: 'Failure rate', width: 4, unit: 'percentunit', decimals: 2, noValue: 'no handoffs',
    queries: [now(failureRate(shown))],
    steps: rising(failing.elevated, failing.critical),
    about: 'Share of the handoffs that used up all retries without an acknowledgement, over the time shown.',
    good: 'under 0.5 %.',
    otherwise: 'above 0.5 %, find the agent in the table below; above 2 %, the fault is systemic: check what all agents share.',
    runbooks: ['HandoffFailureRateElevated', 'HandoffFailureRateCritical'],
});

const completenessStat = stat({
    title: 'Context completeness', width: 4, unit: 'percentunit', decimals: 1, noValue: 'none requested',
    queries: [now(completeness(shown))],
    steps: falling(complete.critical, complete.low),
    about: 'Share of the requested memories that made it into their envelopes, over the time shown.',
    good: '95 % or more.',
    otherwise: 'below 95 %, check on the agent dashboard whether memories are missing (the spine, wrong ids) or trimmed (the budget); below 80 %, results cannot be trusted.',
    runbooks: ['HandoffCompletenessLow', 'HandoffCompletenessCritical'],
});

const latencyStat = stat({
    title: 'Handoff latency, p99', width: 4, unit: 's', decimals: 2, noValue: 'no handoffs',
    queries: [now(latency(0.99, shown))],
    steps: rising(timeoutShare * timeout, timeout),
    about: 'One in a hundred acknowledged handoffs took longer than this, retries included. The default timeout of one attempt is 15 s.',
    good: 'far below the 15 s timeout.',
    otherwise: 'above 12 s, the next slowdown causes retries: open the slowest agent; if all are slow, check the stages on the sidecar dashboard.',
    runbooks: ['HandoffLatencyHigh'],
});

const hopStat = stat({
    title: 'Hop depth, mean', width: 4, unit: 'short', decimals: 1, noValue: 'no handoffs',
    queries: [now(hopDepth(shown))],
    about: 'Average position of handoffs in the chain of their task; the first handoff of a task is 1.',
    good: 'its usual value: about half the length of your pipeline.',
    otherwise: 'a rise without a release means that agents are handing work back and forth; see Tasks and hops.',
    runbooks: ['HandoffHopDepthRising'],
});

const utilizationStat = stat({
    title: 'Token utilization, mean', width: 4, unit: 'percentunit', decimals: 0, noValue: 'no handoffs',
    queries: [now(utilization(shown))],
    steps: [[neutral, null], [good, used.underused], [warn, used.full]],
    about: 'Average share of the token budget that envelopes use.',
    good: 'between 20 % and 90 %.',
    otherwise: 'lower: budgets are larger than the work needs; higher: context is probably being trimmed; see the agent dashboard.',
    runbooks: ['HandoffContextTrimmed', 'HandoffBudgetUnderused'],
});

const budgetGauge = gauge({
    title: 'Error budget left', width: 4, height: 4, unit: 'percentunit', decimals: 0, noValue: 'no handoffs', min: 0, max: 1,
    queries: [now(`1 - (${failureRate(shown)}) / (1 - ${limits.objective})`)],
    steps: [[bad, null], [warn, 0], [good, 0.25]],
    about: 'Remaining share of the failures that the 99.5 % objective allows, over the time shown. Select 30 days to see the whole budget.',
    good: 'well above 0.',
    otherwise: 'below 0, more failed than the objective allows: hold back risky changes until the cause is found.',
    runbooks: ['HandoffErrorBudgetBurn'],
});

const circuitsStat = stat({
    title: 'Open circuits', width: 4, unit: 'short',
    queries: [now(sum(`handoff_circuit_state${target('state="open"')}`))],
    steps: [[good, null], [bad, 1]],
    about: 'Target agents whose handoffs are rejected because several in a row failed.',
    good: '0.',
    otherwise: 'open the agent and look at its attempts. The circuit probes automatically; `handoffctl agents reset NAME` closes it immediately.',
    runbooks: ['HandoffCircuitOpen'],
});

const parkedStat = stat({
    title: 'Parked', width: 4, unit: 'locale',
    queries: [now(sum(`handoff_parked_entries${target()}`))],
    steps: [[good, null], [warn, 1]],
    about: 'Handoffs that could not be delivered and wait for an operator.',
    good: '0.',
    otherwise: 'once the agent has recovered, `handoffctl parked list`, then replay or discard them: this never happens automatically.',
    runbooks: ['HandoffParkedWaiting'],
});

const inFlightStat = stat({
    title: 'In flight', width: 4, unit: 'locale',
    queries: [now(sum(`handoff_in_flight${target()}`))],
    about: 'Accepted handoffs that have not finished.',
    good: 'small and moving.',
    otherwise: 'if it only grows, an agent takes work without acknowledging it; the agent dashboard shows the oldest.',
});

const sidecarsStat = stat({
    title: 'Sidecars down', width: 4, unit: 'short',
    queries: [now('count(up{job=~"$job", instance=~"$instance"} == 0) or vector(0)')],
    steps: [[good, null], [bad, 1]],
    about: 'Sidecars that Prometheus cannot scrape. Their data is missing from this dashboard.',
    good: '0.',
    otherwise: 'the agents next to them cannot hand off; see the sidecar dashboard and the runbook.',
    runbooks: ['HandoffExporterDown', 'HandoffExporterInstanceUnreachable'],
});

const spineStat = stat({
    title: 'Spine', width: 4, unit: 'short',
    queries: [now('min (handoff_spine_up{job=~"$job", instance=~"$instance"})')],
    steps: [[bad, null], [good, 1]],
    mappings: mapping({ 0: ['down', bad], 1: ['up', good] }),
    about: 'Whether the last spine request succeeded; the worst of several sidecars.',
    good: 'up.',
    otherwise: 'envelopes go out without the memories they need; the runbook describes how to find the cause.',
    runbooks: ['HandoffSpineDown'],
});

// --- tables -----------------------------------------------------------------------------------------

const severities = mapping({ 1: ['info', neutral], 2: ['warning', warn], 3: ['critical', bad] });
const level = (factor, severity) => `max without (alertstate) (${factor} * ${firing(severity)})`;

const alertTable = table({
    title: 'Active alerts', height: 6, sort: [['Severity', true], ['Since', false]], noValue: 'no alerts',
    queries: [
        rows([level(3, 'critical'), level(2, 'warning'), level(1, 'info')].join('\nor\n')),
        rows(`(1000 * ALERTS_FOR_STATE${alertsOfTarget('severity=~"critical|warning|info"')})\n` +
            `and ignoring (alertstate)\nALERTS${alertsOfTarget('alertstate="firing"', 'severity=~"critical|warning|info"')}`),
    ],
    columns: [
        ['Value #A', { name: 'Severity', mappings: severities, width: 100 }],
        ['alertname', {
            name: 'Alert', width: 280,
            link: { title: 'Runbook of ${__value.text}', url: '${runbooks}/${__value.text}.md', newTab: true },
        }],
        ['target_agent', { name: 'Target agent', link: toAgent }],
        ['instance', { name: 'Sidecar', link: toSidecar }],
        ['call', { name: 'Call' }],
        ['code', { name: 'Code' }],
        ['Value #B', { name: 'Since', unit: 'dateTimeFromNow', width: 150 }],
    ],
    about: 'All firing alerts, the most severe first. The name links to the runbook, the agent to its dashboard.',
    good: 'empty.',
    otherwise: 'start with the critical ones; an open circuit usually explains the failure rate.',
    empty: 'Empty while nothing fires.',
});

const targetTable = table({
    title: 'Targets, worst first', height: 8,
    sort: [['Circuit', true], ['Failure rate', true], ['Parked', true], ['Completeness', false]],
    queries: [
        rows(circuit('target_agent')),
        rows(failureRate(shown, 'target_agent')),
        rows(completeness(shown, 'target_agent')),
        rows(latency(0.99, shown, 'target_agent')),
        rows(utilization(shown, 'target_agent')),
        rows(settledHandoffs(shown, 'target_agent')),
        rows(max(`handoff_consecutive_failures${target()}`, 'target_agent')),
        rows(sum(`handoff_parked_entries${target()}`, 'target_agent')),
        rows(sum(`handoff_in_flight${target()}`, 'target_agent')),
    ],
    columns: [
        ['target_agent', { name: 'Target agent', link: toAgent, width: 220 }],
        ['Value #A', { name: 'Circuit', mappings: circuitStates }],
        ['Value #B', { name: 'Failure rate', unit: 'percentunit', decimals: 2, steps: rising(failing.elevated, failing.critical) }],
        ['Value #C', { name: 'Completeness', unit: 'percentunit', decimals: 1, steps: falling(complete.critical, complete.low) }],
        ['Value #D', { name: 'Latency p99', unit: 's', decimals: 2, steps: rising(timeoutShare * timeout, timeout) }],
        ['Value #E', { name: 'Utilization', unit: 'percentunit', decimals: 0, steps: [[neutral, null], [good, used.underused], [warn, used.full]] }],
        ['Value #F', { name: 'Handoffs', unit: 'locale', decimals: 0 }],
        ['Value #G', { name: 'Failed in a row', unit: 'short', steps: rising(1, limits.consecutiveFailures) }],
        ['Value #H', { name: 'Parked', unit: 'locale', steps: [[good, null], [warn, 1]] }],
        ['Value #I', { name: 'In flight', unit: 'locale' }],
    ],
    about: 'All target agents with their measures over the time shown: open circuits first, then by failure rate, then by parked handoffs, because a refusal does not count as a failure.',
    good: 'all green.',
    otherwise: 'click the first agent: its dashboard shows outcomes, attempts and context.',
    runbooks: ['HandoffConsecutiveFailures'],
});

// --- over time --------------------------------------------------------------------------------------

const outcomes = ['acknowledged', 'exhausted', 'rejected', 'refused', 'expired', 'hop_limit', 'circuit_open'];

const outcomeLines = lines({
    title: 'Handoffs by outcome', unit: 'suffix: /s', stack: 'normal', names: outcomes, min: 0, interval: '30s',
    queries: [series(rate(handoffs, target(), 'outcome'), '{{outcome}}')],
    about: 'Finished handoffs per second, by outcome.',
    good: 'green, following your workload.',
    otherwise: 'exhausted: an agent does not answer; rejected: wrong url or token; refused: it does not accept; expired: deadlines are too short; circuit_open: not sent; hop_limit: a loop.',
    runbooks: ['HandoffFailed'],
});

const failureLines = lines({
    title: 'Failure rate by target', unit: 'percentunit', interval: '1m', line: true, steps: rising(failing.elevated, failing.critical), min: 0,
    softMax: 0.03,
    queries: [series(failureRate(moving, 'target_agent'), '{{target_agent}}')],
    about: 'Share of the handoffs to each target that used up all retries. The lines are at 0.5 % and 2 %.',
    good: '0, or at least below the orange line.',
    otherwise: 'one line rises: that agent; all rise: something they share, such as the network or certificates.',
    runbooks: ['HandoffFailureRateElevated', 'HandoffErrorBudgetBurn'],
});

const completenessLines = lines({
    title: 'Completeness by target', unit: 'percentunit', line: true, steps: falling(complete.critical, complete.low),
    min: 0, max: 1,
    queries: [series(completeness(moving, 'target_agent'), '{{target_agent}}')],
    about: 'Share of the requested memories that each target received. The lines are at 80 % and 95 %.',
    good: 'above the upper line.',
    otherwise: 'one line drops: its budget or what its senders request; all drop: the spine.',
    runbooks: ['HandoffCompletenessLow'],
});

const latencyLines = lines({
    title: 'Handoff latency', unit: 's', interval: '1m', line: true, log: true, steps: rising(timeoutShare * timeout, timeout),
    names: ['p50', 'p95', 'p99'],
    queries: [['p50', 0.5], ['p95', 0.95], ['p99', 0.99]].map(([name, q]) => series(latency(q, moving), name, { exemplar: true })),
    about: 'Time from acceptance of a handoff to its acknowledgement, over all selected targets. The red line is the 15 s timeout of one attempt.',
    good: 'flat, and p99 far below the red line.',
    otherwise: 'p99 alone: one agent or retries; all three: the spine or the machine. Points are single handoffs; click one to open its trace.',
    runbooks: ['HandoffLatencyHigh'],
});

const hopLines = lines({
    title: 'Hop depth by pattern', unit: 'short', decimals: 1, min: 0, width: 8,
    queries: [series(hopDepth(moving, 'pattern'), '{{pattern}}')],
    about: 'Mean position of handoffs in the chain of their task.',
    good: 'flat.',
    otherwise: 'if it rises, agents are handing work back and forth; see Tasks and hops.',
    runbooks: ['HandoffHopDepthRising', 'HandoffHopLimitReached'],
});

const utilizationLines = lines({
    title: 'Token utilization by target', unit: 'percentunit', line: true, min: 0, max: 1, width: 8,
    steps: [[neutral, null], [good, used.underused], [warn, used.full]],
    queries: [series(utilization(moving, 'target_agent'), '{{target_agent}}')],
    about: 'Mean share of the token budget that envelopes to each target use. The lines are at 20 % and 90 %.',
    good: 'between the lines.',
    otherwise: 'above: raise its budget or request less; below for long: its budget is too large.',
    runbooks: ['HandoffContextTrimmed', 'HandoffBudgetUnderused'],
});

const trimmedLines = lines({
    title: 'Memories not delivered', unit: 'percentunit', min: 0, width: 8, softMax: 0.1, stack: 'normal', names: ['missing', 'trimmed'],
    queries: [series(lost(moving), '{{outcome}}')],
    about: 'Share of the requested memories that did not reach their target: missing from the spine, or trimmed to fit the budget.',
    good: 'close to 0.',
    otherwise: 'missing: see the spine on the sidecar dashboard; trimmed: see the budgets of the agents.',
});

// --- channels ---------------------------------------------------------------------------------------

const receiver = sidecar('receiver=~"$target_agent"');
const noChannels = 'Empty until a channel is configured.';

const publishedLines = lines({
    title: 'Published', unit: 'suffix: /s', min: 0, width: 6,
    queries: [series(rate('handoff_channel_published_total', receiver, 'channel', 'receiver'), '{{channel}} to {{receiver}}')],
    about: 'Publications per second, for each receiver of each channel.',
    good: 'following your workload.',
    otherwise: 'if one receiver gets fewer than the others, look at the receivers that publishers name.',
    empty: noChannels,
});

const pendingLines = lines({
    title: 'Pending', unit: 'short', min: 0, width: 6,
    queries: [series(sum(`handoff_channel_pending${receiver}`, 'channel', 'receiver'), '{{channel}} to {{receiver}}')],
    about: 'Publications that a receiver has not acknowledged yet; parked ones are not among them.',
    good: 'back to 0 all the time.',
    otherwise: 'a line that only grows: that receiver is down, or slower than the channel. Others are not delayed.',
    runbooks: ['HandoffChannelBacklog'],
    empty: noChannels,
});

const behindLines = lines({
    title: 'Oldest pending', unit: 's', line: true, min: 0, width: 6, steps: [[good, null], [warn, limits.channelBacklog]],
    queries: [series(max(`handoff_channel_oldest_pending_seconds${receiver}`, 'channel', 'receiver'), '{{channel}} to {{receiver}}')],
    about: 'For how long each receiver has been behind. The line at 15 minutes is the alert threshold.',
    good: 'seconds.',
    otherwise: 'a line that climbs at 45 degrees: the receiver acknowledges nothing.',
    runbooks: ['HandoffChannelBacklog'],
    empty: noChannels,
});

const redeliveredLines = lines({
    title: 'Redelivered', unit: 'suffix: /s', min: 0, width: 6,
    queries: [series(rate('handoff_channel_redelivered_total', receiver, 'channel', 'receiver'), '{{channel}} to {{receiver}}')],
    about: 'Attempts after the first, per second, for each receiver of each channel.',
    good: 'close to 0.',
    otherwise: 'the receiver fails, is too slow, or lets its leases run out; it may see publications twice.',
    empty: noChannels,
});

const help = text({
    title: 'How to read this', width: 24, height: 4,
    content: [
        'Colours follow the alert thresholds: **green** is healthy, **orange** a ticket, **red** a page. Numbers cover the selected time range; lines use a moving window.',
        'After an alert: the first row of **Targets, worst first** names the agent; click it for outcomes, attempts, circuit and context. If all agents look the same, open **Sidecar**; if tasks go in circles, **Tasks and hops**.',
        'The i in the corner of a panel describes what good looks like and what to do otherwise; the arrow next to it links to the runbooks.',
    ].join('\n\n'),
});

export const overview = {
    uid: uids.overview,
    title: 'Handoff / Overview',
    description: 'Is it healthy? The five measures of handoffs, firing alerts, and the worst agent.',
    variables: ['target_agent'],
    rows: [
        ['', [
            firingAlerts, failureStat, completenessStat, latencyStat, hopStat, utilizationStat,
            budgetGauge, circuitsStat, parkedStat, inFlightStat, spineStat, sidecarsStat,
        ]],
        ['Where to look', [targetTable, alertTable]],
        ['Over time', [
            outcomeLines, failureLines, latencyLines, completenessLines, hopLines, utilizationLines, trimmedLines,
        ]],
        ['Channels', [publishedLines, pendingLines, behindLines, redeliveredLines]],
        ['Help', [help]],
    ],
};

