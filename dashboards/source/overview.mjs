// SPDX-License-Identifier: Apache-2.0
//
// overview.mjs - is it healthy? The specification's five measures, what fires, which agent is worst. From
// here it is one click to that agent.
import { limits, uids } from './config.mjs';
import {
    bad, circuitStates, falling, gauge, good, lines, mapping, neutral, now, override, rising, rows, series, stat, steps, table,
    text, warn,
} from './panels.mjs';
import {
    alertsOfTarget, circuit, completeness, failureRate, handoffs, hopDepth, latency, lost, max, moving, rate, settledHandoffs,
    shown, sum, target, utilization,
} from './queries.mjs';

const { failureRate: failing, completeness: complete, timeout, timeoutShare, utilization: used } = limits;

// A link from a cell to a dashboard, with what is selected here and the cell's value as one variable more.
const kept = '${datasource:queryparam}&${job:queryparam}&${__url_time_range}';
const open = (title, uid, variable, more) => ({ title, url: `/d/${uid}?${kept}${more}&var-${variable}=\${__value.text}` });
const toAgent = open('Open this agent', uids.agent, 'target_agent', '&${instance:queryparam}');
const toChannel = open('Open this channel', uids.tasks, 'channel', '&${instance:queryparam}');
const toSidecar = open('Open this sidecar', uids.sidecar, 'instance', '');

const firing = (severity) => `ALERTS${alertsOfTarget('alertstate="firing"', `severity="${severity}"`)}`;

// --- the first line: now ----------------------------------------------------------------------------

const firingAlerts = stat({
    title: 'Firing alerts', width: 4, unit: 'short', names: true,
    queries: [
        now(`count(${firing('critical')}) or vector(0)`, 'critical'),
        now(`count(${firing('warning')}) or vector(0)`, 'warning'),
    ],
    steps: [[good, null], [warn, 1]],
    overrides: [override('critical', steps([good, null], [bad, 1]))],
    about: 'Alerts that fire for what is selected. Critical ones page, warnings are tickets.',
    good: 'both are 0.',
    otherwise: 'the table below names them, with the agent each is about and its runbook.',
});

const failureStat = stat({
    title: 'Failure rate', width: 4, unit: 'percentunit', decimals: 2, noValue: 'no handoffs',
    queries: [now(failureRate(shown))],
    steps: rising(failing.elevated, failing.critical),
    about: 'Share of the handoffs that used up all retries without an acknowledgement, over the time shown.',
    good: 'under 0.5 %.',
    otherwise: 'from 0.5 % on find the agent in the table below; above 2 % the fault is systemic: look at what all agents share.',
    runbooks: ['HandoffFailureRateElevated', 'HandoffFailureRateCritical'],
});

const completenessStat = stat({
    title: 'Context completeness', width: 4, unit: 'percentunit', decimals: 1, noValue: 'nothing asked for',
    queries: [now(completeness(shown))],
    steps: falling(complete.critical, complete.low),
    about: 'Share of the memories asked for that made it into their envelopes, over the time shown.',
    good: '95 % or more.',
    otherwise: 'below 95 % see on the agent dashboard whether memories are missing (the spine, wrong ids) or trimmed (the budget); below 80 % results can not be trusted.',
    runbooks: ['HandoffCompletenessLow', 'HandoffCompletenessCritical'],
});

const latencyStat = stat({
    title: 'Handoff latency, p99', width: 4, unit: 's', decimals: 2, noValue: 'no handoffs',
    queries: [now(latency(0.99, shown))],
    steps: rising(timeoutShare * timeout, timeout),
    about: 'One in a hundred acknowledged handoffs took longer than this, retries included. An attempt may take 15 s by default.',
    good: 'far below the 15 s of one attempt.',
    otherwise: 'above 12 s the next slow-down turns into retries: open the slowest agent; if all are slow, look at the stages on the sidecar dashboard.',
    runbooks: ['HandoffLatencyHigh'],
});

const hopStat = stat({
    title: 'Hop depth, mean', width: 4, unit: 'short', decimals: 1, noValue: 'no handoffs',
    queries: [now(hopDepth(shown))],
    about: 'How far down the chain of their task handoffs were, on average; the first of a task is 1.',
    good: 'what it always was: about half the length of your pipeline.',
    otherwise: 'a rise without a release means that agents hand work back and forth; see Tasks and hops.',
    runbooks: ['HandoffHopDepthRising'],
});

const utilizationStat = stat({
    title: 'Token utilization, mean', width: 4, unit: 'percentunit', decimals: 0, noValue: 'no handoffs',
    queries: [now(utilization(shown))],
    steps: [[neutral, null], [good, used.underused], [warn, used.full]],
    about: 'Share of their token budgets that envelopes use, on average.',
    good: 'between 20 % and 90 %.',
    otherwise: 'lower: budgets are larger than the work needs; higher: context is probably being trimmed, see the agents.',
    runbooks: ['HandoffContextTrimmed', 'HandoffBudgetUnderused'],
});

const budgetGauge = gauge({
    title: 'Error budget left', width: 4, height: 4, unit: 'percentunit', decimals: 0, noValue: 'no handoffs', min: 0, max: 1,
    queries: [now(`1 - (${failureRate(shown)}) / (1 - ${limits.objective})`)],
    steps: [[bad, null], [warn, 0], [good, 0.25]],
    about: 'What is left of the failures that the objective of 99.5 % allows, over the time shown. Show 30 days for the budget that is agreed on.',
    good: 'well above 0.',
    otherwise: 'below 0 more failed than is allowed: hold back risky changes until the cause is found.',
    runbooks: ['HandoffErrorBudgetBurn'],
});

const circuitsStat = stat({
    title: 'Open circuits', width: 4, unit: 'short',
    queries: [now(sum(`handoff_circuit_state${target('state="open"')}`))],
    steps: [[good, null], [bad, 1]],
    about: 'Target agents to which handoffs are turned away because they failed in a row.',
    good: '0.',
    otherwise: 'open the agent: what do its attempts say? The circuit probes by itself; `handoffctl agents reset NAME` closes it at once.',
    runbooks: ['HandoffCircuitOpen'],
});

const parkedStat = stat({
    title: 'Parked', width: 4, unit: 'locale',
    queries: [now(sum(`handoff_parked_entries${target()}`))],
    steps: [[good, null], [warn, 1]],
    about: 'Handoffs that could not be delivered and wait for a person.',
    good: '0.',
    otherwise: 'when the agent is well again, `handoffctl parked list`, then replay or discard them: nothing does it by itself.',
    runbooks: ['HandoffParkedWaiting'],
});

const inFlightStat = stat({
    title: 'In flight', width: 4, unit: 'locale',
    queries: [now(sum(`handoff_in_flight${target()}`))],
    about: 'Handoffs that were accepted and have not ended.',
    good: 'small and moving.',
    otherwise: 'if it only grows, an agent takes work and does not acknowledge it: the oldest are on the agent dashboard.',
});

const sidecarsStat = stat({
    title: 'Sidecars down', width: 4, unit: 'short',
    queries: [now('count(up{job=~"$job", instance=~"$instance"} == 0) or vector(0)')],
    steps: [[good, null], [bad, 1]],
    about: 'Sidecars that do not answer Prometheus. What they measured is missing from everything here.',
    good: '0.',
    otherwise: 'agents beside them cannot hand off; see the sidecar dashboard and the runbook.',
    runbooks: ['HandoffExporterDown', 'HandoffExporterInstanceUnreachable'],
});

const spineStat = stat({
    title: 'Spine', width: 4, unit: 'short',
    queries: [now('min (handoff_spine_up{job=~"$job", instance=~"$instance"})')],
    steps: [[bad, null], [good, 1]],
    mappings: mapping({ 0: ['down', bad], 1: ['up', good] }),
    about: 'Whether the spine answered the last time it was asked; of several sidecars the worst.',
    good: 'up.',
    otherwise: 'envelopes go out without the memories they need: the runbook says how to find out why.',
    runbooks: ['HandoffSpineDown'],
});

// --- what to look at --------------------------------------------------------------------------------

const severities = mapping({ 1: ['info', neutral], 2: ['warning', warn], 3: ['critical', bad] });
const level = (factor, severity) => `max without (alertstate) (${factor} * ${firing(severity)})`;

const alertTable = table({
    title: 'What fires', height: 6, sort: [['Severity', true], ['Since', false]], noValue: 'nothing fires',
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
        ['channel', { name: 'Channel', link: toChannel }],
        ['receiver', { name: 'Receiver' }],
        ['Value #B', { name: 'Since', unit: 'dateTimeFromNow', width: 150 }],
    ],
    about: 'Every firing alert, the most severe first. The name leads to its runbook, the agent to its dashboard.',
    good: 'empty.',
    otherwise: 'begin with the critical ones; an open circuit usually explains the failure rate.',
    empty: 'Empty while all is well.',
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
    about: 'Every target agent with its measures over the time shown; open circuits first, then by failure rate, then by what is parked, since a refusal counts as no failure.',
    good: 'all green.',
    otherwise: 'click the name of the first line: its dashboard tells outcomes, attempts and context.',
    runbooks: ['HandoffConsecutiveFailures'],
});

// --- how it went ------------------------------------------------------------------------------------

const outcomes = ['acknowledged', 'exhausted', 'refused', 'expired', 'hop_limit', 'circuit_open'];

const outcomeLines = lines({
    title: 'Handoffs by outcome', unit: 'suffix: /s', stack: 'normal', names: outcomes, min: 0,
    queries: [series(rate(handoffs, target(), 'outcome'), '{{outcome}}')],
    about: 'Handoffs that ended, each second, by how they ended.',
    good: 'green, with the rhythm of your work.',
    otherwise: 'exhausted: an agent does not answer; refused: it does not accept; expired: deadlines are too short; circuit_open: turned away; hop_limit: a loop.',
    runbooks: ['HandoffFailed'],
});

const failureLines = lines({
    title: 'Failure rate by target', unit: 'percentunit', line: true, steps: rising(failing.elevated, failing.critical), min: 0,
    softMax: 0.03,
    queries: [series(failureRate(moving, 'target_agent'), '{{target_agent}}')],
    about: 'Share of the handoffs to each target that used up all retries. The lines are at 0.5 % and 2 %.',
    good: 'at 0, below the orange line.',
    otherwise: 'one line up: that agent; all lines up: something they share, such as the network or certificates.',
    runbooks: ['HandoffFailureRateElevated', 'HandoffErrorBudgetBurn'],
});

const completenessLines = lines({
    title: 'Completeness by target', unit: 'percentunit', line: true, steps: falling(complete.critical, complete.low),
    min: 0, max: 1,
    queries: [series(completeness(moving, 'target_agent'), '{{target_agent}}')],
    about: 'Share of the memories asked for that each target received. The lines are at 80 % and 95 %.',
    good: 'above the upper line.',
    otherwise: 'one line down: its budget or what its senders ask for; all lines down: the spine.',
    runbooks: ['HandoffCompletenessLow'],
});

const latencyLines = lines({
    title: 'Handoff latency', unit: 's', line: true, log: true, steps: rising(timeoutShare * timeout, timeout),
    names: ['p50', 'p95', 'p99'],
    queries: [['p50', 0.5], ['p95', 0.95], ['p99', 0.99]].map(([name, q]) => series(latency(q, moving), name, { exemplar: true })),
    about: 'From the acceptance of a handoff to its acknowledgement, over all targets selected. The red line is the 15 s that one attempt may take.',
    good: 'flat, and p99 far below the red line.',
    otherwise: 'p99 alone: one agent or retries; all three: the spine or the machine. Points are single handoffs: follow one to its trace.',
    runbooks: ['HandoffLatencyHigh'],
});

const hopLines = lines({
    title: 'Hop depth by pattern', unit: 'short', decimals: 1, min: 0, width: 8,
    queries: [series(hopDepth(moving, 'pattern'), '{{pattern}}')],
    about: 'Mean place of handoffs in the chain of their task.',
    good: 'flat.',
    otherwise: 'rising: agents hand work back and forth; see Tasks and hops.',
    runbooks: ['HandoffHopDepthRising', 'HandoffHopLimitReached'],
});

const utilizationLines = lines({
    title: 'Token utilization by target', unit: 'percentunit', line: true, min: 0, max: 1, width: 8,
    steps: [[neutral, null], [good, used.underused], [warn, used.full]],
    queries: [series(utilization(moving, 'target_agent'), '{{target_agent}}')],
    about: 'Mean share of the token budget that envelopes to each target use. The lines are at 20 % and 90 %.',
    good: 'between the lines.',
    otherwise: 'above: raise its budget or ask for less; below for long: the budget is larger than it needs.',
    runbooks: ['HandoffContextTrimmed', 'HandoffBudgetUnderused'],
});

const trimmedLines = lines({
    title: 'Memories lost on the way', unit: 'percentunit', min: 0, width: 8, softMax: 0.1, stack: 'normal', names: ['missing', 'trimmed'],
    queries: [series(lost(moving), '{{outcome}}')],
    about: 'Share of the memories asked for that did not reach their target: missing from the spine, or trimmed to fit the budget.',
    good: 'close to 0.',
    otherwise: 'missing: see the spine on the sidecar dashboard; trimmed: see the budgets of the agents.',
});

const help = text({
    title: 'How to read this', width: 24, height: 4,
    content: [
        'Colours change where the alerts begin: **green** is well, **orange** a ticket, **red** a page. Numbers cover the time shown above; lines move with it.',
        'From an alarm: the first line of **Targets, worst first** names the agent; click it for outcomes, attempts, circuit and context. If all agents look alike, open **Sidecar**; if tasks run in circles, **Tasks and hops**.',
        'The i in the corner of a panel tells what good looks like and what to do otherwise; the arrow beside it leads to the runbooks.',
    ].join('\n\n'),
});

export const overview = {
    uid: uids.overview,
    title: 'Handoff / Overview',
    description: 'Is it healthy? The five measures of handoffs, what fires, and which agent is worst.',
    variables: ['target_agent'],
    rows: [
        ['', [
            firingAlerts, failureStat, completenessStat, latencyStat, hopStat, utilizationStat,
            budgetGauge, circuitsStat, parkedStat, inFlightStat, spineStat, sidecarsStat,
        ]],
        ['Where to look', [targetTable, alertTable]],
        ['How it went', [
            outcomeLines, failureLines, latencyLines, completenessLines, hopLines, utilizationLines, trimmedLines,
        ]],
        ['Help', [help]],
    ],
};

