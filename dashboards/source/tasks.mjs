// SPDX-License-Identifier: Apache-2.0
//
// tasks.mjs - do tasks take the intended route? Depth, handoffs per task, cycles and limits.
import { limits, uids } from './config.mjs';
import { bad, dashes, good, heatmap, lines, neutral, now, override, rising, series, stat, warn } from './panels.mjs';
import {
    handoffs, heat, hopDepth, increase, max, mean, moving, observations, quantile, rate, shown, sidecar, sum, target,
} from './queries.mjs';

const untilTasks = 'Empty until a task is completed.';

// --- now --------------------------------------------------------------------------------------------

const depthStat = stat({
    title: 'Hop depth, mean', width: 3, unit: 'short', decimals: 1, noValue: 'no handoffs',
    queries: [now(hopDepth(shown))],
    about: 'Average position of handoffs in the chain of their task; the first handoff of a task is 1.',
    good: 'about half the length of your pipeline, and steady.',
    otherwise: 'a rise without a release: agents are handing work back and forth.',
    runbooks: ['HandoffHopDepthRising'],
});

const deepStat = stat({
    title: 'Hop depth, p95', width: 3, unit: 'short', decimals: 0, noValue: 'no handoffs', steps: rising(8, 10),
    queries: [now(quantile(0.95, 'handoff_hop_depth', sidecar(), shown))],
    about: 'One in twenty handoffs was deeper than this. The limit is 10 by default (hops.max).',
    good: 'the length of your pipeline.',
    otherwise: 'near the limit, tasks are about to be stopped: find the loop in the depth distribution, or raise hops.max if the pipeline really is that long.',
    runbooks: ['HandoffHopLimitReached'],
});

const perTaskStat = stat({
    title: 'Handoffs per task, mean', width: 4, unit: 'short', decimals: 1, noValue: 'no task completed',
    queries: [now(mean('handoff_task_handoffs', sidecar(), shown))],
    about: 'Average number of handoffs a task took to complete, over the time shown.',
    good: 'the number of steps in your pipeline.',
    otherwise: 'more: work is redone or sent back; see the distribution below.',
    empty: untilTasks,
});

const completedStat = stat({
    title: 'Tasks completed', width: 4, unit: 'locale', decimals: 0, noValue: 'none',
    queries: [now(observations('handoff_task_handoffs', sidecar(), shown))],
    about: 'Tasks completed in the time shown.',
    good: 'the number you expect.',
    otherwise: 'none although there are handoffs: agents do not call `POST /v1/tasks/ID/complete`, or every task gets stuck.',
    empty: untilTasks,
});

const cyclesStat = stat({
    title: 'Cycles', width: 3, unit: 'locale', decimals: 0, steps: [[good, null], [warn, 1]],
    queries: [now(increase('handoff_route_cycles_total', sidecar(), shown))],
    about: 'Handoffs to an agent that was already on the path of the task, in the time shown.',
    good: '0, or the number of times reviews send work back on purpose.',
    otherwise: 'more than that: two agents play ping-pong; `handoffctl task ID` shows the path of a task.',
    runbooks: ['HandoffHopDepthRising'],
});

const limitStat = stat({
    title: 'Stopped by the hop limit', width: 4, unit: 'locale', decimals: 0, steps: [[good, null], [bad, 1]],
    queries: [now(increase(handoffs, target('outcome="hop_limit"'), shown))],
    about: 'Handoffs rejected because their task had used up its hops, in the time shown. Those tasks have stopped.',
    good: '0.',
    otherwise: 'a loop that nothing else stopped: `handoffctl task ID` shows which agents had the task; finish it manually.',
    runbooks: ['HandoffHopLimitReached'],
});

const openStat = stat({
    title: 'Oldest open task', width: 3, unit: 's', decimals: 0, noValue: 'not watched',
    queries: [now(max(`handoff_oldest_open_task_seconds${sidecar()}`))],
    about: 'Time since the last acknowledgement of the task that has waited longest: not completed, and nothing of it in flight or parked. 0 if tasks.stalled_after is not set.',
    good: 'less than an agent needs for its work.',
    otherwise: 'more than tasks.stalled_after: an agent died after it acknowledged, or does not complete its tasks.',
    runbooks: ['HandoffTaskStalled'],
});

// --- depth ------------------------------------------------------------------------------------------

const depthHeat = heatmap({
    title: 'Depth distribution', unit: 'short',
    queries: heat('handoff_hop_depth', sidecar()),
    about: 'Distribution of hop depth over time. Each row is one position in the chain.',
    good: 'one band per pipeline step, all equally intense.',
    otherwise: 'bands above the length of the pipeline are loops; a fading band is a step where tasks get stuck.',
    runbooks: ['HandoffHopDepthRising', 'HandoffHopLimitReached'],
});

const depthLines = lines({
    title: 'Mean depth by pattern', unit: 'short', decimals: 1, min: 0, height: 9,
    queries: [series(hopDepth(moving, 'pattern'), '{{pattern}}')],
    about: 'Mean position of handoffs in the chain of their task, by pattern: direct, broadcast and choreographed.',
    good: 'flat.',
    otherwise: 'compare with the week before, in the panel below.',
    runbooks: ['HandoffHopDepthRising'],
});

const recorded = (name) => `max by (pattern) (${name}{job=~"$job"})`;
const pastLines = lines({
    title: 'Depth against the week before', unit: 'short', decimals: 1, min: 0, width: 8,
    queries: [
        series(recorded('job_pattern:handoff_hop_depth:mean1h'), '{{pattern}}, last hour'),
        series(`max by (pattern) (job_pattern:handoff_hop_depth:mean7d{job=~"$job"} offset 1d)`, '{{pattern}}, its week before'),
    ],
    overrides: [{ matcher: { id: 'byRegexp', options: '/week before/' }, properties: [...dashes('text')] }],
    about: 'What the alert compares: the mean of the last hour with that of the week that ended a day ago, from the recording rules.',
    good: 'both are close.',
    otherwise: 'the alert fires when the hour is at least 1.5 times the week, and at least one hop more.',
    runbooks: ['HandoffHopDepthRising'],
    empty: 'Empty until the recording rules are loaded; the past appears once they have run for a day.',
});

const patternLines = lines({
    title: 'Handoffs by pattern', unit: 'suffix: /s', stack: 'normal', min: 0, width: 8, interval: '30s',
    queries: [series(rate(handoffs, target(), 'pattern'), '{{pattern}}')],
    about: 'Finished handoffs per second, by routing pattern.',
    good: 'the mix you designed.',
    otherwise: 'if a pattern stops, its senders are down, or handoffs to its target are rejected.',
});

const cycleLines = lines({
    title: 'Cycles and hop limit', unit: 'short', bars: true, min: 0, width: 8,
    queries: [
        series(increase('handoff_route_cycles_total', sidecar(), moving), 'cycles'),
        series(increase('handoff_ping_pongs_total', sidecar(), moving), 'back and forth'),
        series(increase(handoffs, target('outcome="hop_limit"'), moving), 'stopped by the limit'),
    ],
    overrides: [['cycles', neutral], ['back and forth', warn], ['stopped by the limit', bad]].map(([name, color]) => override(name, { id: 'color', value: { mode: 'fixed', fixedColor: color } })),
    about: 'Handoffs to an agent that had the task before, those that went back and forth between two agents and added nothing, and tasks stopped by the hop limit.',
    good: 'no hop limit; cycles only where reviews send work back on purpose.',
    otherwise: 'select the target agents one by one: those that hit the limit are one end of the loop. The log names the tasks that go back and forth.',
    runbooks: ['HandoffPingPong', 'HandoffHopLimitReached'],
});

// --- tasks ------------------------------------------------------------------------------------------

const taskHeat = heatmap({
    title: 'Handoffs per completed task', unit: 'short', height: 8,
    queries: heat('handoff_task_handoffs', sidecar()),
    about: 'Distribution of the number of handoffs per completed task, over time.',
    good: 'one band, at the length of your pipeline.',
    otherwise: 'an upward tail means rework.',
    empty: untilTasks,
});

const taskLines = lines({
    title: 'Handoffs per task', unit: 'short', decimals: 1, min: 0, names: ['mean', 'p95'],
    queries: [
        series(mean('handoff_task_handoffs', sidecar(), moving), 'mean'),
        series(quantile(0.95, 'handoff_task_handoffs', sidecar(), moving), 'p95'),
    ],
    about: 'Mean and 95th percentile of handoffs per completed task.',
    good: 'both at the length of your pipeline.',
    otherwise: 'p95 far from the mean: some kinds of tasks are sent back.',
    empty: untilTasks,
});

export const tasks = {
    uid: uids.tasks,
    title: 'Handoff / Tasks and hops',
    description: 'Do tasks take the intended route? Depth, handoffs per task, cycles, limits.',
    variables: ['target_agent'],
    rows: [
        ['', [depthStat, deepStat, perTaskStat, completedStat, openStat, cyclesStat, limitStat]],
        ['Depth', [depthHeat, depthLines, pastLines, patternLines, cycleLines]],
        ['Tasks', [taskHeat, taskLines]],
    ],
};
