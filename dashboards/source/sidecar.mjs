// SPDX-License-Identifier: Apache-2.0
//
// sidecar.mjs - the process itself: where a handoff spends its time, the store, the spine, resource usage,
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
    about: 'Sidecars that Prometheus can scrape.',
    good: 'all that you run; the table below lists them.',
    otherwise: 'if none, agents cannot hand off and nothing is measured; accepted handoffs are in the store and resume at the next start.',
    runbooks: ['HandoffExporterDown', 'HandoffExporterInstanceUnreachable'],
});

const spineStat = stat({
    title: 'Spine', width: 4, unit: 'short', mappings: mapping({ 0: ['down', bad], 1: ['up', good] }), steps: [[bad, null], [good, 1]],
    queries: [now(min(own('handoff_spine_up')))],
    about: 'Whether the last spine request succeeded; the worst of the current selection.',
    good: 'up.',
    otherwise: 'envelopes are missing memories: see the spine requests below and the runbook.',
    runbooks: ['HandoffSpineDown'],
});

const tokenizerStat = stat({
    title: 'Token counts', width: 4, unit: 'short', mappings: mapping({ 0: ['estimated', warn], 1: ['exact', good] }),
    steps: [[warn, null], [good, 1]],
    queries: [now(min(own('handoff_tokenizer_exact')))],
    about: 'Whether tokens are counted exactly or estimated because no vocabulary is installed.',
    good: 'exact.',
    otherwise: 'estimates are about three times too high, so envelopes carry less than they could: install the vocabularies.',
    runbooks: ['HandoffTokensEstimated'],
});

const answerLines = lines({
    title: 'Problems answered', width: 24, unit: 'short', bars: true, stack: 'normal', min: 0, interval: '1m',
    queries: [series(`${increase('handoff_api_requests_total', sidecar('code!="ok"'), moving, 'call', 'code')} > 0`, '{{call}}: {{code}}')],
    about: 'Requests to the agent API that were answered with a problem, by call and code.',
    good: 'none, or few.',
    otherwise: 'only the callers know of these: the code says what is wrong with their requests.',
    runbooks: ['HandoffRequestsFailing'],
    empty: 'Empty while every request is answered without a problem.',
});

const reloadStat = stat({
    title: 'Configuration', width: 4, unit: 'short', mappings: mapping({ 0: ['rejected', bad], 1: ['in effect', good] }),
    steps: [[bad, null], [good, 1]],
    queries: [now(min(own('handoff_exporter_config_last_reload_successful')))],
    about: 'Whether the most recently read configuration file is in effect.',
    good: 'in effect.',
    otherwise: 'the sidecar keeps its old configuration and would not start again if restarted: `handoffctl check-config` gives the reason.',
    runbooks: ['HandoffConfigReloadFailed'],
});

const droppedStat = stat({
    title: 'Label sets folded', width: 4, unit: 'short', decimals: 0, steps: [[good, null], [warn, 1]],
    queries: [now(increase('handoff_exporter_series_dropped_total', sidecar(), shown))],
    about: 'Label sets counted under "other" because their metric reached its series limit, in the time shown.',
    good: '0.',
    otherwise: 'dashboards cannot show those agents individually: raise metrics.max_series_per_family, or stop generating agent names.',
    runbooks: ['HandoffSeriesDropped'],
});

const commitFailureStat = stat({
    title: 'Failed commits', width: 4, unit: 'short', decimals: 0, steps: [[good, null], [bad, 1]],
    queries: [now(increase('handoff_store_commit_failures_total', sidecar(), shown))],
    about: 'Store commits that failed in the time shown; the affected handoffs were rejected, not lost.',
    good: '0.',
    otherwise: 'the disk is full or failing: the log names the error.',
    runbooks: ['HandoffStoreFailing'],
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
        ['Value #D', { name: 'Configuration current', mappings: yesNo }],
        ['Value #E', { name: 'Configuration read', unit: 'dateTimeFromNow' }],
        ['Value #F', { name: 'In flight', unit: 'short' }],
    ],
    about: 'All sidecars, with version, revision and uptime.',
    good: 'all up, the same version, long uptimes.',
    otherwise: 'repeatedly short uptime: it crashes or is killed; see its log and the memory panel below.',
    runbooks: ['HandoffExporterInstanceUnreachable', 'HandoffConfigReloadFailed'],
});

// --- stages -----------------------------------------------------------------------------------------

const stages = (q) => series(quantile(q, 'handoff_stage_duration_seconds', sidecar(), moving, 'stage'), '{{stage}}');

const stageMedian = lines({
    title: 'Stages, p50', unit: 's', log: true, width: 8,
    queries: [stages(0.5)],
    about: 'Median time in each stage: resolve (spine requests), trim, encode, persist (the commit) and attempt (the receiver).',
    good: 'resolve, trim and encode below a millisecond, persist below ten.',
    otherwise: 'check the stage that rose: persist is the disk, resolve the spine, attempt the receiver.',
    runbooks: ['HandoffLatencyHigh'],
});

const stageTail = lines({
    title: 'Stages, p99', unit: 's', log: true, width: 8,
    queries: [stages(0.99)],
    about: '99th percentile of the time in each stage.',
    good: 'within ten times the median.',
    otherwise: 'persist alone: the disk stalls occasionally; all stages: the machine is busy.',
    runbooks: ['HandoffLatencyHigh'],
});

const stageTime = lines({
    title: 'Time spent in stages', unit: 's', stack: 'normal', min: 0, width: 8,
    queries: [series(
        `(histogram_sum(${sum(`rate(${own('handoff_stage_duration_seconds')}${moving})`, 'stage')}))\nor\n` +
        `(${rate('handoff_stage_duration_seconds_sum', sidecar(), 'stage')})`, '{{stage}}')],
    about: 'Seconds spent in each stage per second: where handoffs spend their time.',
    good: 'almost all of it in attempt: waiting for receivers.',
    otherwise: 'a visible share of any other stage is worth investigating.',
});

// --- store and spine --------------------------------------------------------------------------------

const commitHeat = heatmap({
    title: 'Store commits', unit: 's', width: 8, height: 8,
    queries: heat('handoff_store_commit_duration_seconds', sidecar()),
    about: 'Distribution of store commit times, fsync included. Under load, many handoffs share one commit.',
    good: 'one band below 10 ms.',
    otherwise: 'a climbing band: the disk is busy or slow. Accepting a handoff waits for it.',
});

const commitLines = lines({
    title: 'Commits and failed commits', unit: 'suffix: /s', min: 0, width: 8,
    queries: [
        series(observations('handoff_store_commit_duration_seconds', sidecar(), moving), 'commits'),
        series(rate('handoff_store_commit_failures_total', sidecar()), 'failed'),
    ],
    overrides: [{ matcher: { id: 'byName', options: 'failed' }, properties: [{ id: 'color', value: { mode: 'fixed', fixedColor: bad } }] }],
    about: 'Store commits per second, and failed commits.',
    good: 'none failed; under load there are fewer commits than handoffs, because handoffs share them.',
    otherwise: 'failed: the disk is full or read-only.',
});

const storeLines = lines({
    title: 'Store size', unit: 'bytes', min: 0, width: 8,
    queries: [series(max(own('handoff_store_bytes'), 'instance'), '{{instance}}')],
    about: 'Bytes in use in the store: memories, live and parked handoffs, and what is kept of finished ones.',
    good: 'a plateau at about storage.retention.size and index_size together.',
    otherwise: 'if it only grows: parked handoffs and memories are never removed by retention.',
});

const retainedLines = lines({
    title: 'Oldest finished handoff', unit: 's', log: true, width: 8,
    queries: [series(min(own('handoff_retained_oldest_seconds'), 'kind'), '{{kind}}')],
    about: 'Time since the oldest handoff finished that still has its envelope (body), its idempotency key, or its place in the chain, on the sidecar where that is shortest.',
    good: 'chain and key at storage.retention.age; body shorter, where storage.retention.size is used up.',
    otherwise: 'key below the time for which senders repeat requests: raise storage.retention.index_size.',
    runbooks: ['HandoffRetentionCutShort'],
});

const removedLines = lines({
    title: 'Removed by retention', unit: 'suffix: /s', min: 0, width: 8,
    queries: [series(rate('handoff_retention_removed_total', sidecar(), 'kind', 'reason'), '{{kind}} for {{reason}}')],
    about: 'What retention removes each second: envelopes alone (body) and whole handoffs with their keys (chain).',
    good: 'chains for age only.',
    otherwise: 'chains for size: idempotency keys go before storage.retention.age.',
    runbooks: ['HandoffRetentionCutShort'],
});

const keptLines = lines({
    title: 'Kept of finished handoffs', unit: 'bytes', min: 0, width: 8,
    queries: [series(max(own('handoff_retained_bytes'), 'kind'), '{{kind}}')],
    about: 'Bytes of the envelopes of finished handoffs (body) and of everything else kept of them (index), on the sidecar with the most.',
    good: 'at most storage.retention.size and storage.retention.index_size.',
    otherwise: 'above them for long: the store cannot be written.',
});

const diskLines = lines({
    title: 'Free disk space', unit: 'percentunit', min: 0, max: 1, width: 12,
    queries: [
        series(min(`${own('handoff_store_disk_free_bytes')} / ${own('handoff_store_disk_size_bytes')}`, 'instance'), '{{instance}}'),
    ],
    about: 'Free share of the file system of the store.',
    good: 'well above 5 %.',
    otherwise: 'free space, or lower storage.retention.size: a full disk rejects handoffs.',
    runbooks: ['HandoffStoreFailing'],
});

const displacedLines = lines({
    title: 'Stores displaced', unit: 'short', min: 0, width: 12,
    queries: [series(max(own('handoff_store_displaced'), 'instance'), '{{instance}}')],
    about: '1 if the store was deleted, moved or replaced while the sidecar was running.',
    good: '0.',
    otherwise: 'the sidecar accepts nothing until it is restarted with its store.',
    runbooks: ['HandoffStoreFailing'],
});

const spineLines = lines({
    title: 'Spine requests, p99', unit: 's', log: true,
    queries: [series(quantile(0.99, 'handoff_spine_request_duration_seconds', sidecar(), moving, 'operation'), '{{operation}}')],
    about: '99th percentile of spine request times, by operation.',
    good: 'a few milliseconds.',
    otherwise: 'search alone: too many memories to rank; all operations: the disk or the memory service.',
    runbooks: ['HandoffSpineDown'],
});

const spineOutcomes = lines({
    title: 'Spine requests by outcome', unit: 'suffix: /s', stack: 'normal', min: 0,
    queries: [series(observations('handoff_spine_request_duration_seconds', sidecar(), moving, 'outcome'), '{{outcome}}')],
    overrides: [['ok', good], ['refused', warn], ['failed', bad]].map(([name, color]) => (
        { matcher: { id: 'byName', options: name }, properties: [{ id: 'color', value: { mode: 'fixed', fixedColor: color } }] })),
    about: 'Spine requests per second, by outcome.',
    good: 'ok.',
    otherwise: 'failed: the spine is unavailable and envelopes are incomplete; refused: the request was invalid.',
    runbooks: ['HandoffSpineDown'],
});

// --- the process ------------------------------------------------------------------------------------

const inFlightLines = lines({
    title: 'In flight', unit: 'short', min: 0, width: 8,
    queries: [series(sum(own('handoff_in_flight'), 'instance'), '{{instance}}')],
    about: 'Accepted handoffs that have not finished, per sidecar.',
    good: 'far below api.max_in_flight, 10 000 by default.',
    otherwise: 'near the limit, agents get 429: some receiver does not acknowledge; see the overview.',
});

const memoryLines = lines({
    title: 'Memory', unit: 'bytes', min: 0, width: 8,
    queries: [series(max(own('process_resident_memory_bytes'), 'instance'), '{{instance}}')],
    about: 'Resident memory of each sidecar.',
    good: 'tens of megabytes, flat.',
    otherwise: 'it grows with handoffs in flight; if it grows without them, please report a bug.',
});

const cpuLines = lines({
    title: 'CPU', unit: 'percentunit', min: 0, width: 8,
    queries: [series(rate('process_cpu_seconds_total', sidecar(), 'instance'), '{{instance}}')],
    about: 'CPU time of each sidecar; 100 % is one core.',
    good: 'a few per cent.',
    otherwise: 'a full core: check the handoff rate, and trimming, which counts tokens.',
});

const fdLines = lines({
    title: 'File descriptors in use', unit: 'percentunit', line: true, min: 0, max: 1, width: 8, steps: rising(0.7, 0.9),
    queries: [series(max(`${own('process_open_fds')} / ${own('process_max_fds')}`, 'instance'), '{{instance}}')],
    about: 'Open file descriptors as a share of their limit.',
    good: 'below 50 %.',
    otherwise: "raise the service's LimitNOFILE; each agent connection and each delivery uses one.",
});

const threadLines = lines({
    title: 'Threads', unit: 'short', min: 0, width: 8,
    queries: [series(max(own('process_threads'), 'instance'), '{{instance}}')],
    about: 'Threads of each sidecar.',
    good: 'a few more than there are cores, and constant.',
    otherwise: 'a number that changes is a bug: please report it.',
});

const shortageLines = lines({
    title: 'Resources that ran out', unit: 'suffix: /s', min: 0, width: 24,
    queries: [series(rate('handoff_exporter_resource_shortages_total', sidecar(), 'resource'), '{{resource}}')],
    about: 'Operations per second that were put off, or done without, because the sidecar ran out of descriptors, memory, threads or ports.',
    good: '0.',
    otherwise: 'deliveries and connections are delayed, and no agent is at fault: raise the limit that is named.',
    runbooks: ['HandoffExporterOutOfResources'],
});

const turnLines = lines({
    title: 'Longest turn of an event loop', unit: 's', min: 0, width: 24,
    queries: [series(max(own('handoff_exporter_loop_turn_max_seconds'), 'instance', 'loop'), '{{loop}} {{instance}}')],
    about: 'Longest time of the last minute or two in which a loop served no one else: api for the agent API and deliveries, web for scrapes and this page, control for reloads.',
    good: 'milliseconds.',
    otherwise: 'above 0.1 s, agents and scrapes wait for it. Compare with CPU usage: on a machine that is short of processors, all loops are slow.',
});

const secretLines = lines({
    title: 'Credentials in handoffs', unit: 'suffix: /s', min: 0, width: 24,
    queries: [series(rate('handoff_secrets_total', sidecar(), 'kind, where'), '{{kind}} in {{where}}')],
    about: 'Credentials per second that agents sent in requests, memories and reasons, and that were replaced by a marker or rejected.',
    good: '0.',
    otherwise: 'an agent reads secrets that it hands on: rotate them, and let the receiver fetch them by name.',
});

const networkLines = lines({
    title: 'Network', unit: 'Bps', width: 8,
    queries: [
        series(rate('process_network_receive_bytes_total', sidecar(), 'instance'), 'in {{instance}}'),
        series(`-${rate('process_network_transmit_bytes_total', sidecar(), 'instance')}`, 'out {{instance}}'),
    ],
    about: 'IP traffic in the network namespace of the sidecar; sent is drawn downwards. Without a separate namespace, this covers the whole machine.',
    good: 'proportional to the handoff rate and the size of the envelopes.',
    otherwise: 'high outbound traffic without handoffs: it is being scraped far too often.',
});

// --- the metrics themselves -------------------------------------------------------------------------

const scrapeLines = lines({
    title: 'Scrape duration', unit: 's', log: true, width: 6,
    queries: [
        series(quantile(0.99, 'handoff_exporter_scrape_duration_seconds', sidecar(), moving), 'p99, as the sidecar saw it'),
        series(mean('handoff_exporter_scrape_duration_seconds', sidecar(), moving), 'mean, as the sidecar saw it'),
        series(max(own('scrape_duration_seconds')), 'slowest, as Prometheus saw it'),
    ],
    about: 'Scrape time as measured by the sidecar, and by Prometheus across the network.',
    good: 'milliseconds.',
    otherwise: 'much longer for Prometheus than for the sidecar: the network or TLS; long for both: too many series.',
});

const sampleLines = lines({
    title: 'Samples per scrape', unit: 'short', min: 0, width: 6,
    queries: [series(max(own('scrape_samples_scraped'), 'instance'), '{{instance}}')],
    about: 'Samples in one scrape, which is what the sidecar costs Prometheus.',
    good: 'constant: it grows with configured agents, not with traffic.',
    otherwise: 'switch to native histograms: one sample instead of about twenty.',
    runbooks: ['HandoffSeriesDropped'],
});

const scrapeCodes = lines({
    title: 'Scrapes by status', unit: 'suffix: /s', stack: 'normal', min: 0, width: 6,
    queries: [series(rate('handoff_exporter_scrapes_total', sidecar(), 'code'), '{{code}}')],
    about: 'Scrapes answered, by HTTP status.',
    good: 'all 200, one per Prometheus server and interval.',
    otherwise: '503: more concurrent scrapes than metrics.scrapes allows.',
});

const suppressedLines = lines({
    title: 'Suppressed log lines', unit: 'suffix: /s', min: 0, width: 6,
    queries: [series(rate('handoff_exporter_log_suppressed_total', sidecar(), 'instance'), '{{instance}}')],
    about: 'Log lines that were suppressed because the same line repeated too fast.',
    good: '0.',
    otherwise: 'something happens repeatedly: the last such line in the log shows what.',
});

export const sidecarDashboard = {
    uid: uids.sidecar,
    title: 'Handoff / Sidecar',
    description: 'The process itself: stages, store, spine, resources, and whether its metrics can be trusted.',
    variables: [],
    rows: [
        ['', [upStat, spineStat, reloadStat, tokenizerStat, droppedStat, commitFailureStat, instances]],
        ['Stages of a handoff', [stageMedian, stageTail, stageTime]],
        ['Store and spine', [commitHeat, commitLines, storeLines, retainedLines, removedLines, keptLines, diskLines, displacedLines, spineLines, spineOutcomes]],
        ['Requests', [answerLines]],
        ['Process', [inFlightLines, memoryLines, cpuLines, fdLines, threadLines, networkLines, shortageLines, turnLines, secretLines]],
        ['Scrapes', [scrapeLines, sampleLines, scrapeCodes, suppressedLines]],
    ],
};
