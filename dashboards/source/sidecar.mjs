// SPDX-License-Identifier: Apache-2.0
//
// sidecar.mjs - the process itself: where a handoff spends its time, the store, the spine, what it costs,
// and whether its metrics can be trusted.
import { uids } from './config.mjs';
import { bad, good, heatmap, lines, mapping, now, rising, rows, series, stat, table, warn, yesNo } from './panels.mjs';
import {
    heat, increase, max, mean, min, moving, observations, quantile, rate, shown, sidecar, sum,
} from './queries.mjs';

const own = (metric, ...matchers) => `${metric}${sidecar(...matchers)}`;

// --- now --------------------------------------------------------------------------------------------

const upStat = stat({
    title: 'Sidecars up', width: 4, unit: 'short', steps: [[bad, null], [good, 1]],
    queries: [now(`sum (${own('up')})`)],
    about: 'Sidecars that answer Prometheus.',
    good: 'all that you run; the table below lists them.',
    otherwise: 'none: nobody can hand off, and nothing is measured; what was accepted is in the store and resumes at the next start.',
    runbooks: ['HandoffExporterDown', 'HandoffExporterInstanceUnreachable'],
});

const spineStat = stat({
    title: 'Spine', width: 4, unit: 'short', mappings: mapping({ 0: ['down', bad], 1: ['up', good] }), steps: [[bad, null], [good, 1]],
    queries: [now(min(own('handoff_spine_up')))],
    about: 'Whether the spine answered the last time it was asked; the worst of what is selected.',
    good: 'up.',
    otherwise: 'memories are missing from envelopes: look at its requests below and at the runbook.',
    runbooks: ['HandoffSpineDown'],
});

const tokenizerStat = stat({
    title: 'Token counts', width: 4, unit: 'short', mappings: mapping({ 0: ['estimated', warn], 1: ['exact', good] }),
    steps: [[warn, null], [good, 1]],
    queries: [now(min(own('handoff_tokenizer_exact')))],
    about: 'Whether tokens are counted with a vocabulary or estimated because none is installed.',
    good: 'exact.',
    otherwise: 'estimates are about three times too high, so that envelopes carry less than they could: install the vocabularies.',
});

const reloadStat = stat({
    title: 'Configuration', width: 4, unit: 'short', mappings: mapping({ 0: ['refused', bad], 1: ['in force', good] }),
    steps: [[bad, null], [good, 1]],
    queries: [now(min(own('handoff_exporter_config_last_reload_successful')))],
    about: 'Whether the last configuration file that was read is in force.',
    good: 'in force.',
    otherwise: 'the sidecar goes on with the old one, and a restart would not start at all: `handoffctl check-config` says why.',
    runbooks: ['HandoffConfigReloadFailed'],
});

const droppedStat = stat({
    title: 'Label sets folded', width: 4, unit: 'short', decimals: 0, steps: [[good, null], [warn, 1]],
    queries: [now(increase('handoff_exporter_series_dropped_total', sidecar(), shown))],
    about: 'Label sets that were counted under "other" because their metric reached its cap, in the time shown.',
    good: '0.',
    otherwise: 'the dashboards are blind for single agents among those: raise metrics.max_series_per_family, or stop making up names.',
    runbooks: ['HandoffSeriesDropped'],
});

const commitFailureStat = stat({
    title: 'Failed commits', width: 4, unit: 'short', decimals: 0, steps: [[good, null], [bad, 1]],
    queries: [now(increase('handoff_store_commit_failures_total', sidecar(), shown))],
    about: 'Commits of the store that failed in the time shown; the handoffs concerned were refused, not lost.',
    good: '0.',
    otherwise: 'the disk is full or broken: the log names the error.',
});

const instances = table({
    title: 'Sidecars', height: 5, sort: [['Up', false], ['Sidecar', false]],
    queries: [
        rows(max(own('up'), 'instance')),
        rows(max(own('handoff_exporter_build_info'), 'instance', 'version', 'revision')),
        rows(max(`time() - ${own('process_start_time_seconds')}`, 'instance')),
        rows(min(own('handoff_exporter_config_last_reload_successful'), 'instance')),
        rows(max(`1000 * ${own('handoff_exporter_config_last_reload_success_timestamp_seconds')}`, 'instance')),
        rows(sum(own('handoff_in_flight'), 'instance')),
    ],
    columns: [
        ['instance', { name: 'Sidecar', width: 240 }],
        ['Value #A', { name: 'Up', mappings: yesNo }],
        ['version', { name: 'Version' }],
        ['revision', { name: 'Revision' }],
        ['Value #C', { name: 'Running for', unit: 's', decimals: 1 }],
        ['Value #D', { name: 'Configuration in force', mappings: yesNo }],
        ['Value #E', { name: 'Configuration read', unit: 'dateTimeFromNow' }],
        ['Value #F', { name: 'In flight', unit: 'short' }],
    ],
    about: 'Every sidecar, with what it runs and since when.',
    good: 'all up, one version, running for long.',
    otherwise: 'running for a short time again and again: it crashes or is killed; see its log and the memory below.',
    runbooks: ['HandoffExporterInstanceUnreachable', 'HandoffConfigReloadFailed'],
});

// --- stages -----------------------------------------------------------------------------------------

const stages = (q) => series(quantile(q, 'handoff_stage_duration_seconds', sidecar(), moving, 'stage'), '{{stage}}');

const stageMedian = lines({
    title: 'Stages, p50', unit: 's', log: true, width: 8,
    queries: [stages(0.5)],
    about: 'What half of the handoffs take in each stage: resolve (asking the spine), trim, encode, persist (the commit) and attempt (the receiver).',
    good: 'resolve, trim and encode below a millisecond, persist below ten.',
    otherwise: 'the stage that rose is the one to look at: persist is the disk, resolve the spine, attempt the receiver.',
    runbooks: ['HandoffLatencyHigh'],
});

const stageTail = lines({
    title: 'Stages, p99', unit: 's', log: true, width: 8,
    queries: [stages(0.99)],
    about: 'What one in a hundred handoffs takes or exceeds in each stage.',
    good: 'within ten times the median.',
    otherwise: 'persist alone: the disk stalls now and then; all stages: the machine is busy.',
    runbooks: ['HandoffLatencyHigh'],
});

const stageTime = lines({
    title: 'Time spent in stages', unit: 's', stack: 'normal', min: 0, width: 8,
    queries: [series(
        `(histogram_sum(${sum(`rate(${own('handoff_stage_duration_seconds')}${moving})`, 'stage')}))\nor\n` +
        `(${rate('handoff_stage_duration_seconds_sum', sidecar(), 'stage')})`, '{{stage}}')],
    about: 'Seconds of work in each stage for every second that passes: where handoffs spend their time.',
    good: 'almost all of it in attempt: waiting for receivers.',
    otherwise: 'a visible share of anything else is worth a look.',
});

// --- store and spine --------------------------------------------------------------------------------

const commitHeat = heatmap({
    title: 'Store commits', unit: 's', width: 8, height: 8,
    queries: heat('handoff_store_commit_duration_seconds', sidecar()),
    about: 'How long commits of the store took, with their fsync. Many handoffs share one under load.',
    good: 'one band below 10 ms.',
    otherwise: 'a band that climbs: the disk is busy or slow. Every acceptance waits for it.',
});

const commitLines = lines({
    title: 'Commits and failed commits', unit: 'suffix: /s', min: 0, width: 8,
    queries: [
        series(observations('handoff_store_commit_duration_seconds', sidecar(), moving), 'commits'),
        series(rate('handoff_store_commit_failures_total', sidecar()), 'failed'),
    ],
    overrides: [{ matcher: { id: 'byName', options: 'failed' }, properties: [{ id: 'color', value: { mode: 'fixed', fixedColor: bad } }] }],
    about: 'Commits of the store, each second, and those that failed.',
    good: 'none failed; fewer commits than handoffs under load, because they share.',
    otherwise: 'failed: the disk is full or read-only.',
});

const storeLines = lines({
    title: 'Size of the store', unit: 'bytes', min: 0, width: 8,
    queries: [series(max(own('handoff_store_bytes'), 'instance'), '{{instance}}')],
    about: 'Bytes in use in the store.',
    good: 'a plateau below storage.retention.size.',
    otherwise: 'it only grows: retention is longer than the disk is large.',
});

const spineLines = lines({
    title: 'Spine requests, p99', unit: 's', log: true,
    queries: [series(quantile(0.99, 'handoff_spine_request_duration_seconds', sidecar(), moving, 'operation'), '{{operation}}')],
    about: 'What one in a hundred questions to the spine takes or exceeds, by what it was asked.',
    good: 'a few milliseconds.',
    otherwise: 'queries alone: too many memories to rank; all of them: the disk or the memory service.',
    runbooks: ['HandoffSpineDown'],
});

const spineOutcomes = lines({
    title: 'Spine requests by outcome', unit: 'suffix: /s', stack: 'normal', min: 0,
    queries: [series(observations('handoff_spine_request_duration_seconds', sidecar(), moving, 'outcome'), '{{outcome}}')],
    overrides: [['ok', good], ['refused', warn], ['failed', bad]].map(([name, color]) => (
        { matcher: { id: 'byName', options: name }, properties: [{ id: 'color', value: { mode: 'fixed', fixedColor: color } }] })),
    about: 'Questions to the spine, each second, by how they ended.',
    good: 'ok.',
    otherwise: 'failed: the spine is away and envelopes are incomplete; refused: it was asked something it does not take.',
    runbooks: ['HandoffSpineDown'],
});

// --- the process ------------------------------------------------------------------------------------

const inFlightLines = lines({
    title: 'In flight', unit: 'short', min: 0, width: 8,
    queries: [series(sum(own('handoff_in_flight'), 'instance'), '{{instance}}')],
    about: 'Handoffs that were accepted and have not ended, of each sidecar.',
    good: 'far below api.max_in_flight, 10 000 by default.',
    otherwise: 'near the limit agents are answered 429: some receiver does not acknowledge; see the overview.',
});

const memoryLines = lines({
    title: 'Memory', unit: 'bytes', min: 0, width: 8,
    queries: [series(max(own('process_resident_memory_bytes'), 'instance'), '{{instance}}')],
    about: 'Resident memory of each sidecar.',
    good: 'tens of megabytes, flat.',
    otherwise: 'it grows with what is in flight; if it grows without that, please report it.',
});

const cpuLines = lines({
    title: 'CPU', unit: 'percentunit', min: 0, width: 8,
    queries: [series(rate('process_cpu_seconds_total', sidecar(), 'instance'), '{{instance}}')],
    about: 'CPU time of each sidecar; 100 % is one core.',
    good: 'a few per cent.',
    otherwise: 'a full core: look at handoffs each second, and at trimming, which counts tokens.',
});

const fdLines = lines({
    title: 'File descriptors in use', unit: 'percentunit', line: true, min: 0, max: 1, width: 8, steps: rising(0.7, 0.9),
    queries: [series(max(`${own('process_open_fds')} / ${own('process_max_fds')}`, 'instance'), '{{instance}}')],
    about: 'Open file descriptors as a share of their limit.',
    good: 'below a half.',
    otherwise: 'raise LimitNOFILE of the service; each connection of an agent and each delivery takes one.',
});

const threadLines = lines({
    title: 'Threads', unit: 'short', min: 0, width: 8,
    queries: [series(max(own('process_threads'), 'instance'), '{{instance}}')],
    about: 'Threads of each sidecar.',
    good: 'a handful more than there are cores, and constant.',
    otherwise: 'a number that moves is a fault: please report it.',
});

const networkLines = lines({
    title: 'Network', unit: 'Bps', width: 8,
    queries: [
        series(rate('process_network_receive_bytes_total', sidecar(), 'instance'), 'in {{instance}}'),
        series(`-${rate('process_network_transmit_bytes_total', sidecar(), 'instance')}`, 'out {{instance}}'),
    ],
    about: 'Bytes over IP in the network namespace of the sidecar; sent is drawn downwards. Without a namespace of its own it is the whole machine.',
    good: 'in proportion to your handoffs and the size of their envelopes.',
    otherwise: 'much out without handoffs: somebody scrapes far too often.',
});

// --- the metrics themselves -------------------------------------------------------------------------

const scrapeLines = lines({
    title: 'Scrape duration', unit: 's', log: true, width: 6,
    queries: [
        series(quantile(0.99, 'handoff_exporter_scrape_duration_seconds', sidecar(), moving), 'p99, as the sidecar saw it'),
        series(mean('handoff_exporter_scrape_duration_seconds', sidecar(), moving), 'mean, as the sidecar saw it'),
        series(max(own('scrape_duration_seconds')), 'slowest, as Prometheus saw it'),
    ],
    about: 'From the request of a scrape to its last byte, and the same with the network between.',
    good: 'milliseconds.',
    otherwise: 'much longer for Prometheus than for the sidecar: the network or TLS; long for both: too many series.',
});

const sampleLines = lines({
    title: 'Samples of a scrape', unit: 'short', min: 0, width: 6,
    queries: [series(max(own('scrape_samples_scraped'), 'instance'), '{{instance}}')],
    about: 'What one scrape brings in, and so what the sidecar costs in Prometheus.',
    good: 'constant: it grows with configured agents, never with traffic.',
    otherwise: 'a native histogram is one sample where a classic one is twenty: scrape those.',
    runbooks: ['HandoffSeriesDropped'],
});

const scrapeCodes = lines({
    title: 'Scrapes by status', unit: 'suffix: /s', stack: 'normal', min: 0, width: 6,
    queries: [series(rate('handoff_exporter_scrapes_total', sidecar(), 'code'), '{{code}}')],
    about: 'Scrapes answered, by HTTP status.',
    good: 'all 200, one for each Prometheus and interval.',
    otherwise: '503: more scrapes at once than metrics.scrapes allows.',
});

const suppressedLines = lines({
    title: 'Log lines left out', unit: 'suffix: /s', min: 0, width: 6,
    queries: [series(rate('handoff_exporter_log_suppressed_total', sidecar(), 'instance'), '{{instance}}')],
    about: 'Log lines that were not written because the same line repeated too fast.',
    good: '0.',
    otherwise: 'something happens again and again: the last line of that kind in the log says what.',
});

export const sidecarDashboard = {
    uid: uids.sidecar,
    title: 'Handoff / Sidecar',
    description: 'The process itself: stages, store, spine, resources, and whether its metrics can be trusted.',
    variables: [],
    rows: [
        ['', [upStat, spineStat, reloadStat, tokenizerStat, droppedStat, commitFailureStat, instances]],
        ['Stages of a handoff', [stageMedian, stageTail, stageTime]],
        ['Store and spine', [commitHeat, commitLines, storeLines, spineLines, spineOutcomes]],
        ['Process', [inFlightLines, memoryLines, cpuLines, fdLines, threadLines, networkLines]],
        ['Scrapes', [scrapeLines, sampleLines, scrapeCodes, suppressedLines]],
    ],
};
