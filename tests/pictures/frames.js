// SPDX-License-Identifier: Apache-2.0
//
// frames.js - answers of Prometheus to what panels draw: named series on one grid of times, buckets of
// heatmaps, and tables after the transformations of the panel.
'use strict';

const nameOf = (target, labels) => target.legendFormat.replace(/\{\{(\w+)\}\}/g, (_, label) => labels[label] ?? '');

// [{name, config, values}]: the values of each series at page.times, null where there are none.
function seriesOf(panel) {
    const found = [];
    panel.targets.forEach((target, number) => {
        for (const row of panel.answers[number].result) {
            const at = new Map((row.values ?? [row.value]).map(([time, value]) => [Math.round(time), Number(value)]));
            const values = page.times.map((time) => (Number.isFinite(at.get(time)) ? at.get(time) : null));
            found.push({ name: nameOf(target, row.metric), values, target: number });
        }
    });
    found.forEach((series, index) => {
        series.config = configOf(panel, series.name);
        series.colour = seriesColour(series.config, index);
    });
    return found;
}

// The last value of each series of an instant query.
function numbersOf(panel) {
    return panel.targets.flatMap((target, number) => panel.answers[number].result.map((row) => {
        const name = nameOf(target, row.metric);
        return { name, value: Number((row.value ?? row.values.at(-1))[1]), config: configOf(panel, name) };
    }));
}

// --- heatmaps ---------------------------------------------------------------------------------------

function nativeCells(answer) {
    return answer.result.flatMap((row) => (row.histograms ?? []).flatMap(([time, { buckets }]) =>
        (buckets ?? []).map(([, low, high, count]) => ({ time, low: Number(low), high: Number(high), count: Number(count) }))));
}

function classicCells(answer) {
    const rows = answer.result.map((row) => ({ le: Number(row.metric.le === '+Inf' ? Infinity : row.metric.le), values: row.values }))
        .sort((a, b) => a.le - b.le);
    return rows.flatMap(({ le, values }, index) => {
        const below = new Map(index ? rows[index - 1].values : []);
        const low = index ? rows[index - 1].le : 0;
        const high = le === Infinity ? low * 2 : le;
        return values.map(([time, value]) => ({ time, low, high, count: Number(value) - Number(below.get(time) ?? 0) }));
    });
}

// [{time, low, high, count}] of what was observed at all.
function cellsOf(panel) {
    const [native, classic] = panel.answers;
    return [...nativeCells(native), ...classicCells(classic)].filter(({ count, high }) => count > 1e-9 && high > 0);
}

// --- tables -----------------------------------------------------------------------------------------

// One row for each series, with its labels and the field "Value #A" of its query.
function rowsOf(panel) {
    return panel.targets.map((target, number) => panel.answers[number].result.map((row) => (
        { ...row.metric, [`Value #${target.refId}`]: Number(row.value[1]) })));
}

// Rows of several queries become one where they agree in all labels that both have.
function merge(lists) {
    const merged = [];
    for (const row of lists.flat()) {
        const value = Object.keys(row).find((key) => key.startsWith('Value #'));
        const partner = merged.find((other) => !(value in other) && Object.keys(row).every((key) =>
            key === value || !(key in other) || other[key] === row[key]) &&
            Object.keys(row).some((key) => key !== value && key in other));
        if (partner) {
            Object.assign(partner, row);
        } else {
            merged.push({ ...row });
        }
    }
    return merged;
}

const transformations = {
    merge: ({ fields, lists }) => {
        const rows = merge(lists);
        return { fields: [...new Set(rows.flatMap((row) => Object.keys(row)))], lists: [rows] };
    },
    filterFieldsByName: ({ fields, lists }, { include }) => ({ fields: fields.filter((field) => include.names.includes(field)), lists }),
    organize: ({ fields, lists: [rows] }, { indexByName, renameByName }) => {
        const order = [...fields].sort((a, b) => indexByName[a] - indexByName[b]);
        const rename = (field) => renameByName[field] ?? field;
        return {
            fields: order.map(rename),
            lists: [rows.map((row) => Object.fromEntries(order.map((field) => [rename(field), row[field]])))],
        };
    },
};

// {fields, rows} of a table panel, transformed and sorted.
function tableOf(panel) {
    let state = { fields: [], lists: rowsOf(panel) };
    for (const { id, options } of panel.transformations) {
        state = transformations[id](state, options);
    }
    const rows = state.lists[0] ?? [];
    const rank = (value) => (value === undefined || Number.isNaN(value) ? -Infinity : value);
    rows.sort((a, b) => {
        for (const { displayName, desc } of panel.options.sortBy) {
            const [x, y] = [rank(a[displayName]), rank(b[displayName])];
            if (x !== y) {
                return (x < y ? -1 : 1) * (desc ? -1 : 1);
            }
        }
        return 0;
    });
    return { fields: state.fields, rows };
}
