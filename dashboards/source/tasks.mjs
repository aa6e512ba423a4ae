// SPDX-License-Identifier: Apache-2.0
//
// tasks.mjs - do tasks take the way they should? Depth, handoffs for each task, cycles and limits, and the
// channels on which one publication goes to many.
import { limits, uids } from './config.mjs';
import { bad, dashes, good, heatmap, lines, now, override, rising, series, stat, warn } from './panels.mjs';
import {
    channel, handoffs, heat, hopDepth, increase, max, mean, moving, observations, quantile, rate, shown, sidecar, sum, target,
} from './queries.mjs';

const untilChannels = 'Empty until something is published on a channel.';
const untilTasks = 'Empty until a task is completed.';

// --- now --------------------------------------------------------------------------------------------

const depthStat = stat({
    title: 'Hop depth, mean', width: 4, unit: 'short', decimals: 1, noValue: 'no handoffs',
    queries: [now(hopDepth(shown))],
    about: 'How far down the chain of their task handoffs were, on average; the first of a task is 1.',
    good: 'about half the length of your pipeline, and steady.',
    otherwise: 'a rise without a release: agents hand work back and forth.',
    runbooks: ['HandoffHopDepthRising'],
});

const deepStat = stat({
    title: 'Hop depth, p95', width: 4, unit: 'short', decimals: 0, noValue: 'no handoffs', steps: rising(8, 10),
    queries: [now(quantile(0.95, 'handoff_hop_depth', sidecar(), shown))],
    about: 'One in twenty handoffs was deeper than this. The limit is 10 by default (hops.max).',
    good: 'the length of your pipeline.',
    otherwise: 'close to the limit, tasks are about to be ended: find the loop in the depth distribution, or raise hops.max if the pipeline is that long.',
    runbooks: ['HandoffHopLimitReached'],
});

const perTaskStat = stat({
    title: 'Handoffs for each task, mean', width: 4, unit: 'short', decimals: 1, noValue: 'no task completed',
    queries: [now(mean('handoff_task_handoffs', sidecar(), shown))],
    about: 'Handoffs that a task took until it was completed, on average over the time shown.',
    good: 'the number of steps of your pipeline.',
    otherwise: 'more: work is redone or sent back; see the distribution below.',
    empty: untilTasks,
});

const completedStat = stat({
    title: 'Tasks completed', width: 4, unit: 'locale', decimals: 0, noValue: 'none',
    queries: [now(observations('handoff_task_handoffs', sidecar(), shown))],
    about: 'Tasks that were completed in the time shown.',
    good: 'as many as you expect.',
    otherwise: 'none, although handoffs flow: agents do not call `POST /v1/tasks/ID/complete`, or every task gets stuck.',
    empty: untilTasks,
});

const cyclesStat = stat({
    title: 'Cycles', width: 4, unit: 'locale', decimals: 0, steps: [[good, null], [warn, 1]],
    queries: [now(increase('handoff_route_cycles_total', sidecar(), shown))],
    about: 'Handoffs to an agent that was on the path of its task already, in the time shown.',
    good: '0, or as many as reviews send work back on purpose.',
    otherwise: 'more than that: two agents play ping-pong; `handoffctl task ID` shows the path of a task.',
    runbooks: ['HandoffHopDepthRising'],
});

const limitStat = stat({
    title: 'Ended by the hop limit', width: 4, unit: 'locale', decimals: 0, steps: [[good, null], [bad, 1]],
    queries: [now(increase(handoffs, target('outcome="hop_limit"'), shown))],
    about: 'Handoffs that were refused because their task had used up its hops, in the time shown. That task does not go on.',
    good: '0.',
    otherwise: 'a loop that nothing else stopped: `handoffctl task ID` shows who had the task; settle it by hand.',
    runbooks: ['HandoffHopLimitReached'],
});

// --- depth ------------------------------------------------------------------------------------------

const depthHeat = heatmap({
    title: 'Depth distribution', unit: 'short',
    queries: heat('handoff_hop_depth', sidecar()),
    about: 'How many handoffs were how deep, over time. Each line is one place in the chain.',
    good: 'one band for each step of your pipeline, equally warm.',
    otherwise: 'bands above the length of the pipeline are loops; a band that cools down is a step where tasks get stuck.',
    runbooks: ['HandoffHopDepthRising', 'HandoffHopLimitReached'],
});

const depthLines = lines({
    title: 'Mean depth by pattern', unit: 'short', decimals: 1, min: 0, height: 9,
    queries: [series(hopDepth(moving, 'pattern'), '{{pattern}}')],
    about: 'Mean place of handoffs in the chain of their task: direct, broadcast and choreographed.',
    good: 'flat.',
    otherwise: 'compare with the week before, below.',
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
    about: 'What the alert compares: the mean of the last hour, and of the week that ended a day ago, as the recording rules have it.',
    good: 'both together.',
    otherwise: 'the alert fires from half as much again, and at least one hop more.',
    runbooks: ['HandoffHopDepthRising'],
    empty: 'Empty until the recording rules are loaded; the past until they have run for a day.',
});

const patternLines = lines({
    title: 'Handoffs by pattern', unit: 'suffix: /s', stack: 'normal', min: 0, width: 8,
    queries: [series(rate(handoffs, target(), 'pattern'), '{{pattern}}')],
    about: 'Handoffs that ended, each second, by how they were routed.',
    good: 'the mix that you designed.',
    otherwise: 'a pattern that stops: its senders are down, or their target is turned away.',
});

const cycleLines = lines({
    title: 'Cycles and hop limit', unit: 'short', bars: true, min: 0, width: 8,
    queries: [
        series(increase('handoff_route_cycles_total', sidecar(), moving), 'cycles'),
        series(increase(handoffs, target('outcome="hop_limit"'), moving), 'ended by the limit'),
    ],
    overrides: [['cycles', warn], ['ended by the limit', bad]].map(([name, color]) => override(name, { id: 'color', value: { mode: 'fixed', fixedColor: color } })),
    about: 'Handoffs to an agent that had the task before, and tasks that the hop limit ended.',
    good: 'no hop limit; cycles only where reviews send back on purpose.',
    otherwise: 'select the target agents one by one: those with a limit are one end of the loop.',
    runbooks: ['HandoffHopLimitReached'],
});

// --- tasks ------------------------------------------------------------------------------------------

const taskHeat = heatmap({
    title: 'Handoffs for each completed task', unit: 'short', height: 8,
    queries: heat('handoff_task_handoffs', sidecar()),
    about: 'How many handoffs tasks took until they were completed, over time.',
    good: 'one band, at the length of your pipeline.',
    otherwise: 'a tail upwards is rework.',
    empty: untilTasks,
});

const taskLines = lines({
    title: 'Handoffs for each task', unit: 'short', decimals: 1, min: 0, names: ['mean', 'p95'],
    queries: [
        series(mean('handoff_task_handoffs', sidecar(), moving), 'mean'),
        series(quantile(0.95, 'handoff_task_handoffs', sidecar(), moving), 'p95'),
    ],
    about: 'Mean and 95th percentile of the handoffs that completed tasks took.',
    good: 'both at the length of your pipeline.',
    otherwise: 'p95 away from the mean: some kinds of tasks are sent back.',
    empty: untilTasks,
});

// --- channels ---------------------------------------------------------------------------------------

const publishedLines = lines({
    title: 'Published', unit: 'suffix: /s', min: 0, width: 6, height: 6,
    queries: [series(rate('handoff_channel_published_total', channel(), 'channel'), '{{channel}}')],
    about: 'Publications on each channel, each second.',
    good: 'the rhythm of your agents.',
    otherwise: 'a channel that falls silent: its publisher is down.',
    empty: untilChannels,
});

const pendingLines = lines({
    title: 'Pending', unit: 'short', min: 0, width: 6, height: 6,
    queries: [series(sum(`handoff_channel_pending${channel()}`, 'channel', 'receiver'), '{{channel}}: {{receiver}}')],
    about: 'Publications that a receiver has not acknowledged yet.',
    good: 'small, and back to 0.',
    otherwise: 'one receiver grows: it is slower than its channel, or down.',
    runbooks: ['HandoffChannelBacklog'],
    empty: untilChannels,
});

const lagLines = lines({
    title: 'Broadcast lag', unit: 's', line: true, min: 0, width: 6, height: 6, steps: [[good, null], [warn, limits.channelAge]],
    queries: [series(max(`handoff_channel_oldest_pending_seconds${channel()}`, 'channel', 'receiver'), '{{channel}}: {{receiver}}')],
    about: 'Age of the oldest publication that a receiver has not acknowledged. The line, five minutes, is where the alert begins.',
    good: 'seconds.',
    otherwise: 'a line that climbs at 45 degrees: that receiver takes nothing any more.',
    runbooks: ['HandoffChannelBacklog'],
    empty: untilChannels,
});

const redeliveredLines = lines({
    title: 'Redelivered', unit: 'short', bars: true, min: 0, width: 6, height: 6,
    queries: [series(increase('handoff_channel_redelivered_total', channel(), moving, 'channel', 'receiver'), '{{channel}}: {{receiver}}')],
    about: 'Publications that were sent to a receiver again because it had not acknowledged them.',
    good: 'none.',
    otherwise: 'the receiver fails on them or is too slow; they must be harmless to receive twice.',
    runbooks: ['HandoffChannelBacklog'],
    empty: untilChannels,
});

export const tasks = {
    uid: uids.tasks,
    title: 'Handoff / Tasks and hops',
    description: 'Do tasks take the way they should? Depth, handoffs for each task, cycles, limits, and channels.',
    variables: ['target_agent', 'channel', 'receiver'],
    rows: [
        ['', [depthStat, deepStat, perTaskStat, completedStat, cyclesStat, limitStat]],
        ['Depth', [depthHeat, depthLines, pastLines, patternLines, cycleLines]],
        ['Tasks', [taskHeat, taskLines]],
        ['Channels', [publishedLines, pendingLines, lagLines, redeliveredLines]],
    ],
};
