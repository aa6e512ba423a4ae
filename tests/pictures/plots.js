// SPDX-License-Identifier: Apache-2.0
//
// plots.js - what is drawn on a canvas: lines, bars and heatmaps, over uPlot, which Grafana draws with too.
'use strict';

// Every plot that was made.
const plots = [];

const gridColour = 'rgba(204, 204, 220, 0.07)';
const axisColour = '#9fa0a8';
const axisFont = '11px "DejaVu Sans", sans-serif';

const axes = (label, splits) => [
    { stroke: axisColour, font: axisFont, grid: { stroke: gridColour, width: 1 }, ticks: { show: false }, size: 24, space: 55,
        values: (_, splits) => splits.map((at) => clock(at, page.times.at(-1) - page.times[0] < 300)) },
    { stroke: axisColour, font: axisFont, grid: { stroke: gridColour, width: 1 }, ticks: { show: false }, splits,
        size: (_, texts) => 14 + 7 * Math.max(3, ...(texts ?? []).map((text) => text.length)),
        values: (_, places) => places.map((value) => (value === null ? '' : label(value))) },
];

function horizontal(plot, value, colour, dash) {
    const { ctx, bbox } = plot;
    const y = plot.valToPos(value, 'y', true);
    if (y < bbox.top || y > bbox.top + bbox.height) {
        return;
    }
    ctx.save();
    ctx.strokeStyle = colour;
    ctx.setLineDash(dash);
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.restore();
}

// Alerts as shaded times, starts as lines.
function drawAnnotations(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const { from, to, color } of page.annotations) {
        const [x0, x1] = [from, to].map((time) => plot.valToPos(time, 'x', true));
        ctx.globalAlpha = 0.03;
        ctx.fillStyle = paint(color);
        ctx.fillRect(x0, bbox.top, Math.max(1, x1 - x0), bbox.height);
        ctx.globalAlpha = 0.8;
        ctx.strokeStyle = paint(color);
        ctx.setLineDash([4, 4]);
        ctx.beginPath();
        ctx.moveTo(x0, bbox.top);
        ctx.lineTo(x0, bbox.top + bbox.height);
        ctx.stroke();
    }
    ctx.restore();
}

function drawExemplars(plot, exemplars, colour) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = colour;
    for (const { timestamp, value } of exemplars) {
        const [x, y] = [plot.valToPos(timestamp, 'x', true), plot.valToPos(Number(value), 'y', true)];
        if (x >= bbox.left && x <= bbox.left + bbox.width && y >= bbox.top && y <= bbox.top + bbox.height) {
            ctx.save();
            ctx.translate(x, y);
            ctx.rotate(Math.PI / 4);
            ctx.fillRect(-2.5, -2.5, 5, 5);
            ctx.restore();
        }
    }
    ctx.restore();
}

// --- lines and bars ---------------------------------------------------------------------------------

function stacked(list) {
    const total = page.times.map(() => 0);
    return list.map(({ values }) => values.map((value, i) => {
        total[i] += value ?? 0;
        return value === null ? null : total[i];
    }));
}

const paths = (custom) => (custom.drawStyle === 'bars' ? uPlot.paths.bars({ size: [0.9, 20] }) : uPlot.paths.linear());

// The points that no line reaches.
function alone(plot, number) {
    const values = plot.data[number];
    return values.flatMap((value, i) => (value !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null ? [i] : []));
}

function lineOf({ name, config, colour }) {
    const { custom } = config;
    return {
        label: name,
        stroke: colour,
        width: custom.lineWidth,
        dash: custom.lineStyle?.fill === 'dash' ? custom.lineStyle.dash : undefined,
        fill: custom.fillOpacity ? `${colour}${Math.round(custom.fillOpacity * 2.55).toString(16).padStart(2, '0')}` : undefined,
        points: { show: custom.showPoints === 'auto', size: 3, fill: colour, filter: alone },
        paths: paths(custom),
        spanGaps: custom.spanNulls === true,
    };
}

// The range of the y axis: of the data, the configured bounds, and the thresholds that are to be seen.
function bounds(config, data, exemplars) {
    const values = [...data.flat().filter((value) => value !== null), ...exemplars.map(({ value }) => Number(value))];
    if (config.custom.scaleDistribution?.type === 'log') {
        const positive = values.filter((value) => value > 0);
        const marks = config.custom.thresholdsStyle?.mode !== 'off' ? config.thresholds.steps.map((step) => step.value).filter((value) => value > 0) : [];
        const all = [...positive, ...marks];
        return [Math.min(...all) / 1.5, Math.max(...all) * 1.5];
    }
    const low = config.min ?? Math.min(0, ...values);
    const high = config.max ?? Math.max(...values, config.custom.axisSoftMax ?? -Infinity);
    const room = high > low ? (high - low) * (config.max === undefined ? 0.06 : 0) : 1;
    return [low < 0 ? low - room : low, high + room];
}

function drawLines(panel, body) {
    const list = seriesOf(panel).filter(({ values }) => values.some((value) => value !== null));
    if (!list.length) {
        return 0;
    }
    const { defaults } = panel.fieldConfig;
    const legend = legendOf(list);
    const where = element('div', 'plot');
    body.append(where, legend);
    const isStacked = defaults.custom.stacking.mode === 'normal';
    const data = isStacked ? stacked(list) : list.map(({ values }) => values);
    const [low, high] = bounds(defaults, data, panel.exemplars);
    const order = list.map((_, i) => i);
    if (isStacked) {
        order.reverse(); // what is on top is drawn first, and covered below
    }
    const log = defaults.custom.scaleDistribution?.type === 'log';
    const marks = defaults.custom.thresholdsStyle?.mode !== 'off' ? defaults.thresholds.steps.filter((step) => step.value !== null) : [];
    plots.push(new uPlot({
        width: where.clientWidth, height: where.clientHeight, cursor: { show: false }, legend: { show: false }, padding: [8, 8, 0, 0],
        scales: { x: { time: true }, y: { distr: log ? 3 : 1, range: [low, high] } },
        axes: axes((value) => format(value, defaults.unit, undefined), log ? () => marksOf([low, high]) : undefined),
        series: [{}, ...order.map((i) => lineOf(list[i]))],
        bands: isStacked ? order.slice(0, -1).map((_, i) => ({ series: [i + 1, i + 2] })) : [],
        hooks: {
            drawClear: [drawAnnotations],
            draw: [(plot) => {
                marks.forEach((step) => horizontal(plot, step.value, paint(step.color), [6, 6]));
                drawExemplars(plot, panel.exemplars, '#ffffff');
            }],
        },
    }, [page.times, ...order.map((i) => data[i])], where));
    return data.flat().filter((value) => value !== null).length;
}

// --- heatmaps ---------------------------------------------------------------------------------------

// The "Turbo" scheme, by its usual polynomial.
function turbo(x) {
    const powers = [1, x, x ** 2, x ** 3, x ** 4, x ** 5];
    const channel = (...factors) => Math.max(0, Math.min(255, Math.round(255 * factors.reduce((sum, factor, i) => sum + factor * powers[i], 0))));
    return `rgb(${channel(0.1357, 4.6154, -42.6603, 132.1311, -152.9424, 59.2864)}, ${
        channel(0.0914, 2.1942, 4.8430, -14.1850, 4.2773, 2.8296)}, ${
        channel(0.1067, 12.6419, -60.5820, 110.3628, -89.9031, 27.3482)})`;
}

function heatScale(cells, exemplars) {
    const low = Math.min(...cells.map(({ low, high }) => (low > 0 ? low : high / 2)));
    const high = Math.max(...cells.map(({ high }) => high), ...exemplars.map(({ value }) => Number(value)));
    return [low / 1.1, high * 1.1];
}

// Marks of a logarithmic axis: powers of ten, or of two where those are too few.
function marksOf([low, high]) {
    const base = high / low > 100 ? 10 : 2;
    const first = Math.ceil(Math.log(low) / Math.log(base));
    const last = Math.floor(Math.log(high) / Math.log(base));
    return Array.from({ length: last - first + 1 }, (_, i) => base ** (first + i));
}

function drawHeatmap(panel, body) {
    const cells = cellsOf(panel);
    if (!cells.length) {
        return 0;
    }
    const where = element('div', 'plot');
    body.append(where);
    const { exponent } = panel.options.color;
    const most = Math.max(...cells.map(({ count }) => count));
    const step = page.times[1] - page.times[0];
    const range = heatScale(cells, panel.exemplars);
    const paintCells = (plot) => {
        const { ctx } = plot;
        for (const { time, low, high, count } of cells) {
            const [x0, x1] = [time - step, time].map((at) => plot.valToPos(at, 'x', true));
            const [y0, y1] = [high, Math.max(low, range[0])].map((value) => plot.valToPos(value, 'y', true));
            ctx.fillStyle = turbo(0.08 + 0.92 * (count / most) ** exponent);
            ctx.fillRect(x0, y0, Math.max(1, x1 - x0 - 1), Math.max(2, y1 - y0 - 1));
        }
    };
    plots.push(new uPlot({
        width: where.clientWidth, height: where.clientHeight, cursor: { show: false }, legend: { show: false }, padding: [8, 8, 0, 0],
        scales: { x: { time: true }, y: { distr: 3, log: 2, range } },
        axes: axes((value) => format(value, panel.fieldConfig.defaults.unit, undefined), () => marksOf(range)),
        series: [{}, { show: false }],
        hooks: { draw: [paintCells, (plot) => drawExemplars(plot, panel.exemplars, panel.options.exemplars.color)] },
    }, [page.times, page.times.map(() => null)], where));
    return cells.length;
}
