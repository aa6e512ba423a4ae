// SPDX-License-Identifier: Apache-2.0
//
// frame.mjs - the common frame of all dashboards: variables, annotations, links, and the grid.
import dashboard from '@grafana/grafana-foundation-sdk/dashboard';
import prometheus from '@grafana/grafana-foundation-sdk/prometheus';

import { tag } from './config.mjs';
import { datasource } from './panels.mjs';
import { alerts, alertsOfTarget, sidecar } from './queries.mjs';

const columns = 24;

// --- variables --------------------------------------------------------------------------------------

const all = { selected: true, text: ['All'], value: ['$__all'] };

const labelVariable = (name, label, series) => new dashboard.QueryVariableBuilder(name)
    .label(label)
    .datasource(datasource)
    .query({ qryType: 1, query: `label_values(${series}, ${name})`, refId: 'PrometheusVariableQueryEditor-VariableQuery' })
    .refresh(dashboard.VariableRefresh.OnTimeRangeChanged)
    .sort(dashboard.VariableSort.AlphabeticalAsc)
    .multi(true)
    .includeAll(true)
    .allValue('.+')
    .current(all);

// Optional variables, in addition to datasource, job and instance.
const optional = {
    target_agent: () => labelVariable('target_agent', 'Target agent', `handoff_in_flight${sidecar()}`),
};

// The constant builder has no method for this.
const hidden = (variable) => ({ build: () => ({ ...variable.build(), hide: dashboard.VariableHide.HideVariable }) });

const variables = (names, runbooks) => [
    new dashboard.DatasourceVariableBuilder('datasource')
        .label('Data source').type('prometheus').current({ selected: false, text: 'default', value: 'default' }),
    labelVariable('job', 'Job', 'handoff_exporter_build_info'),
    labelVariable('instance', 'Sidecar', 'handoff_exporter_build_info{job=~"$job"}'),
    ...names.map((name) => optional[name]()),
    hidden(new dashboard.ConstantVariableBuilder('runbooks').label('Runbooks').value(runbooks)),
];

// --- annotations and links ----------------------------------------------------------------------------

const annotation = ({ name, color, expr, title, text, startTimes }) => new dashboard.AnnotationQueryBuilder()
    .name(name)
    .datasource(datasource)
    .enable(true)
    .iconColor(color)
    .target(new prometheus.DataqueryBuilder().refId('Anno').expr(expr).interval('15s').range())
    .expr(expr)
    .step('15s')
    .titleFormat(title)
    .textFormat(text)
    .useValueForTime(startTimes ?? false);

const annotations = (names) => [
    annotation({
        name: 'Alerts',
        color: 'red',
        expr: `ALERTS${(names.includes('target_agent') ? alertsOfTarget : alerts)(
            'alertstate="firing"', 'severity=~"critical|warning"')}`,
        title: '{{alertname}}',
        text: '{{severity}} {{target_agent}} {{call}} {{code}} {{instance}}',
    }),
    annotation({
        name: 'Restarts',
        color: 'blue',
        expr: `process_start_time_seconds${sidecar()} * 1000`,
        title: 'Sidecar started',
        text: '{{instance}}',
        startTimes: true,
    }),
];

const links = () => [
    new dashboard.DashboardLinkBuilder('Handoff dashboards')
        .type('dashboards').tags([tag]).asDropdown(true).includeVars(true).keepTime(true).icon('external link'),
    new dashboard.DashboardLinkBuilder('Runbooks')
        .type('link').url('${runbooks}/README.md').targetBlank(true).icon('doc').tooltip('One page per alert'),
];

// --- the grid -----------------------------------------------------------------------------------------

// Panels fill a row from left to right and must fill it completely; the first panel sets its height.
function place(panels, top, nextId) {
    let x = 0;
    let y = top;
    let lineHeight = 0;
    const placed = panels.map(({ builder, width, height }) => {
        if (x === columns) {
            [x, y] = [0, y + lineHeight];
        }
        lineHeight = x === 0 ? height : lineHeight;
        const panel = builder.id(nextId()).gridPos({ x, y, w: width, h: height }).build();
        x += width;
        if (x > columns || height !== lineHeight) {
            throw new Error(`"${panel.title}" does not fit into its row`);
        }
        return panel;
    });
    if (x !== columns) {
        throw new Error(`"${placed.at(-1).title}" leaves its line open`);
    }
    return { placed, bottom: y + lineHeight };
}

// `rows` is [[title, [panel, ...]], ...]; a row without a title has no heading.
export function build({ uid, title, description, variables: names, rows, runbooks }) {
    const builder = new dashboard.DashboardBuilder(title)
        .uid(uid)
        .description(description)
        .tags([tag])
        .timezone('browser')
        .readonly()
        .tooltip(dashboard.DashboardCursorSync.Crosshair)
        .time({ from: 'now-1h', to: 'now' })
        .refresh('30s')
        .variables(variables(names, runbooks))
        .annotations(annotations(names))
        .links(links());
    const panels = [];
    let id = 0;
    let y = 0;
    const nextId = () => ++id;
    for (const [heading, list] of rows) {
        if (heading) {
            panels.push(new dashboard.RowBuilder(heading).id(nextId()).collapsed(false)
                .gridPos({ x: 0, y, w: columns, h: 1 }).build());
            y += 1;
        }
        const { placed, bottom } = place(list, y, nextId);
        panels.push(...placed);
        y = bottom;
    }
    return tidy({ ...builder.build(), panels });
}

// Leaves out what the builders fill in and means nothing here: a direction for panels that do not repeat,
// a menu that would hide links and annotations, steps of an interval variable, a footer that tables no
// longer have.
const meaningless = new Set(['repeatDirection', 'placement', 'auto', 'auto_min', 'auto_count', 'footer']);

function tidy(value, name) {
    if (Array.isArray(value)) {
        return value.map((item) => tidy(item));
    }
    if (value === null || typeof value !== 'object') {
        return value;
    }
    const kept = Object.entries(value)
        .filter(([key, inner]) => inner !== undefined && (name === 'legend' || !meaningless.has(key)));
    return Object.fromEntries(kept.map(([key, inner]) => [key, tidy(inner, key)]));
}
