// SPDX-License-Identifier: Apache-2.0
//
// panels.mjs - the house style of panels, on top of Grafana's builders: one function per kind, which takes the
// differences and decides the rest, so panels of a kind look the same on all dashboards.
//
//   { title, width, height, queries: [...], unit, about, good, otherwise, runbooks, empty, ... }
//
// The description combines `about` (what the panel shows), `good` (what healthy looks like) and `otherwise`
// (what to do if it does not), so no panel can lack them. `empty` says when a panel may be empty, and the
// tests that query Prometheus rely on it: "Empty while ..." or "Empty until ...".
import common from '@grafana/grafana-foundation-sdk/common';
import dashboard from '@grafana/grafana-foundation-sdk/dashboard';
import gauges from '@grafana/grafana-foundation-sdk/gauge';
import heatmaps from '@grafana/grafana-foundation-sdk/heatmap';
import prometheus from '@grafana/grafana-foundation-sdk/prometheus';
import stats from '@grafana/grafana-foundation-sdk/stat';
import stateTimelines from '@grafana/grafana-foundation-sdk/statetimeline';
import tables from '@grafana/grafana-foundation-sdk/table';
import texts from '@grafana/grafana-foundation-sdk/text';
import timeSeries from '@grafana/grafana-foundation-sdk/timeseries';

export const datasource = { type: 'prometheus', uid: '${datasource}' };

// --- colours -------------------------------------------------------------------------------------

export const good = 'green';
export const warn = 'orange';
export const bad = 'red';
export const neutral = 'blue';

// Success is green, failure is red, and rule-based outcomes are in between.
const meaning = {
    acknowledged: 'green', exhausted: 'red', rejected: 'dark-red', refused: 'orange', expired: 'purple', hop_limit: 'yellow',
    circuit_open: 'dark-red',
    ack: 'green', nack: 'orange', timeout: 'red', connect: 'dark-red', http: 'purple', protocol: 'yellow',
    included: 'green', missing: 'red', trimmed: 'orange', recovered: 'green', stale: 'yellow',
    p50: 'green', p95: 'yellow', p99: 'orange', mean: 'blue',
};

const property = (id, value) => ({ id, value });
const fixed = (color) => property('color', { mode: 'fixed', fixedColor: color });

// thresholds(['green', null], ['orange', 0.005], ['red', 0.02])
export const thresholds = (...steps) => new dashboard.ThresholdsConfigBuilder()
    .mode('absolute')
    .steps(steps.map(([color, value]) => ({ color, value })));
export const rising = (orange, red) => [[good, null], [warn, orange], [bad, red]];
export const falling = (red, orange) => [[bad, null], [warn, red], [good, orange]];
const plain = [[neutral, null]];

// --- queries --------------------------------------------------------------------------------------

// Over time; the legend is a Grafana template such as "{{target_agent}}".
export const series = (expr, legend, more = {}) => ({ expr, legend, ...more });
// One number for all of the time shown.
export const now = (expr, legend = '') => ({ expr, legend, instant: true });
// One row for each series.
export const rows = (expr) => ({ expr, legend: '', instant: true, format: 'table' });

function query({ expr, legend, instant, format, exemplar }, index) {
    const target = new prometheus.DataqueryBuilder()
        .refId(String.fromCharCode('A'.charCodeAt(0) + index))
        .datasource(datasource)
        .editorMode('code')
        .expr(expr)
        .legendFormat(legend)
        .format(format ?? 'time_series')
        .exemplar(exemplar ?? false);
    return instant ? target.instant() : target.range();
}

// --- common to all panels ---------------------------------------------------------------------------

const runbookLink = (alert) => new dashboard.DashboardLinkBuilder(`Runbook: ${alert}`)
    .type('link')
    .url(`\${runbooks}/${alert}.md`)
    .targetBlank(true);

function description({ about, good: well, otherwise, empty }) {
    return [about, `**Good:** ${well}`, `**Otherwise:** ${otherwise}`, ...(empty ? [empty] : [])].join('\n\n');
}

function dress(builder, panel) {
    builder
        .title(panel.title)
        .description(description(panel))
        .datasource(datasource)
        .targets(panel.queries.map(query))
        .unit(panel.unit)
        .thresholds(thresholds(...(panel.steps ?? plain)))
        .links((panel.runbooks ?? []).map(runbookLink))
        .overrides(panel.overrides ?? []);
    if (panel.decimals !== undefined) {
        builder.decimals(panel.decimals);
    }
    if (panel.min !== undefined) {
        builder.min(panel.min);
    }
    if (panel.max !== undefined) {
        builder.max(panel.max);
    }
    if (panel.mappings) {
        builder.mappings(panel.mappings);
    }
    if (panel.noValue) {
        builder.noValue(panel.noValue);
    }
    return { builder, width: panel.width, height: panel.height };
}

const color = (mode, name) => {
    const builder = new dashboard.FieldColorBuilder().mode(mode);
    return name ? builder.fixedColor(name) : builder;
};
const lastValue = () => new common.ReduceDataOptionsBuilder().calcs(['lastNotNull']).values(false).fields('');

// --- kinds of panels --------------------------------------------------------------------------------

// One number, or a few side by side, coloured by thresholds.
export function stat(panel) {
    const builder = new stats.PanelBuilder()
        .reduceOptions(lastValue())
        .colorMode(panel.background ? 'background_solid' : 'value')
        .graphMode('none')
        .justifyMode('center')
        .textMode(panel.queries.length > 1 || panel.names ? 'value_and_name' : 'value')
        .orientation('auto')
        .wideLayout(false)
        .colorScheme(color('thresholds'));
    return dress(builder, { height: 4, ...panel });
}

export function gauge(panel) {
    const builder = new gauges.PanelBuilder()
        .reduceOptions(lastValue())
        .orientation('auto')
        .sizing('auto')
        .showThresholdLabels(false)
        .showThresholdMarkers(true)
        .colorScheme(color('thresholds'));
    return dress(builder, panel);
}

const legend = () => new common.VizLegendOptionsBuilder()
    .displayMode('list').placement('bottom').showLegend(true).calcs([]);

// Lines; with `stack` filled and on top of each other; with `line` their thresholds are drawn. With `interval` no
// two points are closer than that: for queries that are dear with many agents.
export function lines(panel) {
    const builder = new timeSeries.PanelBuilder()
        .drawStyle(panel.bars ? 'bars' : 'line')
        .lineWidth(panel.stack ? 1 : 2)
        .fillOpacity(panel.bars ? 70 : panel.stack ? 35 : 0)
        .lineInterpolation('linear')
        .showPoints('auto') // for single points between two gaps
        .spanNulls(false) // missing data is a gap, not a guess
        .stacking(new common.StackingConfigBuilder().mode(panel.stack ?? 'none').group('A'))
        .thresholdsStyle(new common.GraphThresholdsStyleConfigBuilder().mode(panel.line ? 'dashed' : 'off'))
        .scaleDistribution(panel.log
            ? new common.ScaleDistributionConfigBuilder().type('log').log(10)
            : new common.ScaleDistributionConfigBuilder().type('linear'))
        .colorScheme(color('palette-classic'))
        .legend(legend())
        .tooltip(new common.VizTooltipOptionsBuilder().mode('multi').sort('desc'));
    if (panel.softMax !== undefined) {
        builder.axisSoftMax(panel.softMax);
    }
    if (panel.interval) {
        builder.interval(panel.interval);
    }
    const named = panel.names ?? [];
    const overrides = [
        ...named.map((name) => ({ matcher: { id: 'byName', options: name }, properties: [fixed(meaning[name])] })),
        ...(panel.overrides ?? []),
    ];
    return dress(builder, { height: 8, width: 12, ...panel, overrides });
}

// Observations by size over time, drawn from a histogram (see heat() of queries.mjs).
export function heatmap({ queries: { native, classic }, exemplar, ...panel }) {
    const builder = new heatmaps.PanelBuilder()
        .calculate(false)
        .color(new heatmaps.HeatmapColorOptionsBuilder()
            .mode('scheme').scheme('Turbo').scale('exponential').exponent(0.5).steps(64).fill('dark-orange').reverse(false))
        .cellGap(1)
        .rowsFrame(new heatmaps.RowsHeatmapOptionsBuilder().layout('auto'))
        .showValue('never')
        .yAxis(new heatmaps.YAxisConfigBuilder().unit(panel.unit).axisPlacement('left').reverse(false))
        .showLegend()
        .tooltip(new heatmaps.HeatmapTooltipBuilder().mode('single').yHistogram(true).showColorScale(false))
        .exemplarsColor('rgba(255,255,255,0.9)');
    const queries = [
        { expr: native, legend: '', format: 'heatmap', exemplar },
        { expr: classic, legend: '{{le}}', format: 'heatmap', exemplar },
    ];
    return dress(builder, { height: 9, width: 12, ...panel, queries });
}

// Which state each series was in; the values need mappings.
export function states(panel) {
    const builder = new stateTimelines.PanelBuilder()
        .mergeValues(true)
        .showValue('auto')
        .rowHeight(0.85)
        .alignValue('left')
        .lineWidth(0)
        .fillOpacity(80)
        .colorScheme(color('thresholds'))
        .legend(legend());
    return dress(builder, { height: 7, width: 24, ...panel });
}

// A table: `columns` is [[field, {name, unit, steps, mappings, width, link}], ...] in the order shown;
// fields that are not named there are left out. The value of the n-th query is the field "Value #A".
export function table({ columns, sort, ...panel }) {
    const order = columns.map(([field]) => field);
    const builder = new tables.PanelBuilder()
        .showHeader(true)
        .cellHeight('sm')
        .filterable(false)
        .inspect(false)
        .align('auto')
        .colorScheme(color('thresholds'))
        .sortBy(sort.map(([name, desc]) => new common.TableSortByFieldStateBuilder().displayName(name).desc(desc)))
        .withTransformation({ id: 'merge', options: {} })
        .withTransformation({ id: 'filterFieldsByName', options: { include: { names: order } } })
        .withTransformation({
            id: 'organize',
            options: {
                excludeByName: {},
                indexByName: Object.fromEntries(order.map((field, index) => [field, index])),
                renameByName: Object.fromEntries(columns.map(([field, { name }]) => [field, name])),
            },
        });
    const overrides = columns.map(([, column]) => ({
        matcher: { id: 'byName', options: column.name },
        properties: columnProperties(column),
    })).filter(({ properties }) => properties.length);
    return dress(builder, { height: 8, width: 24, unit: 'short', ...panel, overrides });
}

function columnProperties({ unit, decimals, steps, mappings, width, link }) {
    const properties = [];
    if (unit) {
        properties.push(property('unit', unit));
    }
    if (decimals !== undefined) {
        properties.push(property('decimals', decimals));
    }
    if (steps) {
        properties.push(property('thresholds', thresholds(...steps).build()));
    }
    if (mappings) {
        properties.push(property('mappings', mappings));
    }
    if (steps || mappings) {
        properties.push(property('custom.cellOptions', { type: 'color-text' }));
    }
    if (width) {
        properties.push(property('custom.width', width));
    }
    if (link) {
        properties.push(property('links', [{ title: link.title, url: link.url, targetBlank: link.newTab ?? false }]));
    }
    return properties;
}

// Text; it has no data and so needs no unit.
export function text({ title, content, width, height }) {
    const builder = new texts.PanelBuilder()
        .mode('markdown').content(content).title(title).description('How to read this dashboard.').transparent(true);
    return { builder, width, height };
}

// Values to text: mapping({0: ['closed', 'green'], ...})
export const mapping = (values) => [{
    type: 'value',
    options: Object.fromEntries(Object.entries(values).map(
        ([value, [words, shade]], index) => [value, { text: words, color: shade, index }])),
}];

export const circuitStates = mapping({ 0: ['closed', good], 1: ['half open', warn], 2: ['open', bad] });
export const yesNo = mapping({ 0: ['no', bad], 1: ['yes', good] });

export const override = (name, ...properties) => ({ matcher: { id: 'byName', options: name }, properties });
export const steps = (...list) => property('thresholds', thresholds(...list).build());
export const dashes = (shade) => [
    fixed(shade), property('custom.lineStyle', { fill: 'dash', dash: [10, 10] }), property('custom.lineWidth', 1),
    property('custom.fillOpacity', 0),
];
