// SPDX-License-Identifier: Apache-2.0
//
// page.js - lays the dashboard out and draws every panel. `page` is what the test knows: the shipped dashboard
// with the answers of Prometheus beside each panel's queries.
//
// Each panel says in its data attributes what it drew, for the test to read: drawn (points, cells, rows ...),
// pixels (painted inside the axes), clipped (its title does not fit), overflows (its content does not).
'use strict';

const unitHeight = 38;
const gap = 8;

function element(tag, className, text) {
    const made = document.createElement(tag);
    made.className = className ?? '';
    made.textContent = text ?? '';
    return made;
}

function legendOf(list) {
    const legend = element('div', 'legend');
    const seen = new Set();
    for (const { name, colour } of list) {
        if (!seen.has(name)) {
            const item = element('span');
            item.append(element('i'), name);
            item.firstChild.style.background = colour;
            legend.append(item);
            seen.add(name);
        }
    }
    return legend;
}

// --- the kinds that are no plots ----------------------------------------------------------------------

function fit(number, box, lines) {
    const width = box.clientWidth * 0.9;
    const height = box.clientHeight * (lines > 1 ? 0.55 : 0.75);
    number.style.fontSize = `${Math.max(12, Math.min(42, height, width / (number.textContent.length * 0.62)))}px`;
}

function drawStat(panel, body) {
    const numbers = numbersOf(panel).filter(({ value }) => Number.isFinite(value));
    const withNames = panel.options.textMode === 'value_and_name';
    const values = element('div', 'values');
    body.append(values);
    const shown = numbers.length ? numbers : [{ name: '', value: undefined, config: panel.fieldConfig.defaults }];
    const boxes = shown.map(({ name, value, config }) => {
        const { text, colour } = display(config, value);
        const box = element('div', 'value');
        const number = element('div', 'number', text || 'No data');
        if (panel.options.colorMode.startsWith('background')) {
            box.style.background = colour;
            number.style.color = '#111217';
        } else {
            number.style.color = colour;
        }
        if (withNames) {
            box.append(element('div', 'name', name));
        }
        box.append(number);
        values.append(box);
        return [number, box];
    });
    body.parentElement.dataset.text = boxes.map(([number]) => number.textContent).join(' ');
    boxes.forEach(([number, box]) => fit(number, box, withNames ? 2 : 1));
    return numbers.length;
}

function drawGauge(panel, body) {
    const [found] = numbersOf(panel).filter(({ value }) => Number.isFinite(value));
    const config = panel.fieldConfig.defaults;
    const { text, colour } = display(config, found?.value);
    const share = Math.max(0, Math.min(1, ((found?.value ?? config.min) - config.min) / (config.max - config.min)));
    const arc = (from, to, radius, stroke, width) => {
        const at = (part) => [60 - radius * Math.cos(Math.PI * part), 62 - radius * Math.sin(Math.PI * part)].join(' ');
        return `<path d="M ${at(from)} A ${radius} ${radius} 0 0 1 ${at(to)}" fill="none" stroke="${stroke}" stroke-width="${width}"/>`;
    };
    const bounds = [...config.thresholds.steps.map(({ value, color }) => [value === null ? 0 : (value - config.min) / (config.max - config.min), color]), [1]];
    const marks = bounds.slice(0, -1).map(([from, color], i) => [Math.max(0, from), bounds[i + 1][0], color])
        .filter(([from, to]) => to > from).map(([from, to, color]) => arc(from, to, 54, paint(color), 3));
    body.innerHTML = `<svg viewBox="0 0 120 72" style="flex:1;min-height:0">${arc(0, 1, 45, '#2a2d33', 12)}${
        share ? arc(0, share, 45, colour, 12) : ''}${marks.join('')}
        <text x="60" y="62" text-anchor="middle" font-size="${text.length > 6 ? 13 : 18}" font-weight="500" fill="${colour}"></text></svg>`;
    body.querySelector('text').textContent = text || 'No data';
    return found ? 1 : 0;
}

function cell(panel, name, value) {
    const config = configOf(panel, name);
    const made = element('td');
    const number = typeof value === 'number';
    const { text, colour } = number || value === undefined ? display({ ...config, noValue: '' }, value) : { text: value };
    const link = config.links?.[0];
    if (link && text) {
        const anchor = element('a', '', text);
        anchor.href = link.url.replaceAll('${__value.text}', encodeURIComponent(text));
        made.append(anchor);
    } else {
        made.textContent = text;
    }
    if (number && config.custom.cellOptions?.type === 'color-text') {
        made.style.color = colour;
    }
    if (number) {
        made.style.textAlign = 'left';
    }
    return made;
}

function drawTable(panel, body) {
    const { fields, rows } = tableOf(panel);
    if (!rows.length) {
        return 0;
    }
    const table = element('table');
    const head = element('tr');
    fields.forEach((field) => head.append(element('th', '', field)));
    table.append(head);
    for (const row of rows) {
        const line = element('tr');
        fields.forEach((field) => line.append(cell(panel, field, row[field])));
        table.append(line);
    }
    body.append(table);
    body.parentElement.dataset.first = rows[0][fields[0]];
    return rows.length;
}

// Runs of equal values, as [from, to, value].
function runs(values) {
    const found = [];
    values.forEach((value, i) => {
        const current = found.at(-1);
        if (current && current[2] === value) {
            current[1] = i;
        } else {
            found.push([i, i, value]);
        }
    });
    return found.filter(([, , value]) => value !== null);
}

function drawStates(panel, body) {
    const list = seriesOf(panel);
    const states = element('div', 'states');
    const last = page.times.length - 1;
    let segments = 0;
    for (const { name, config, values } of list) {
        const lane = element('div', 'lane');
        const bar = element('div', 'bar');
        for (const [from, to, value] of runs(values)) {
            const { text, colour } = display(config, value);
            const segment = element('i', '', text);
            segment.style.cssText = `left:${100 * from / last}%;width:${100 * (Math.min(to + 1, last) - from) / last}%;background:${colour}`;
            bar.append(segment);
            segments += 1;
        }
        lane.append(element('span', '', name), bar);
        states.append(lane);
    }
    const axis = element('div', 'axis');
    [0.1, 0.3, 0.5, 0.7, 0.9].forEach((part) => {
        const label = element('span', '', clock(page.times[Math.round(part * last)], page.times.at(-1) - page.times[0] < 300));
        label.style.left = `${100 * part}%`;
        axis.append(label);
    });
    states.append(axis);
    const texts = [...new Map(list.flatMap(({ config, values }) => values.filter((value) => value !== null).map((value) => {
        const { text, colour } = display(config, value);
        return [text, { name: text, colour }];
    }))).values()];
    body.append(states, legendOf(texts));
    return segments;
}

function drawText(panel, body) {
    const text = element('div', 'text');
    const escaped = panel.options.content.replace(/[&<>]/g, (one) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[one]);
    text.innerHTML = escaped.split('\n\n').map((part) => `<p>${part.replace(/\*\*(.+?)\*\*/g, '<b>$1</b>').replace(/`(.+?)`/g, '<code>$1</code>')}</p>`).join('');
    body.append(text);
    return text.textContent.length;
}

// --- the page -----------------------------------------------------------------------------------------

const kinds = {
    timeseries: drawLines, heatmap: drawHeatmap, stat: drawStat, gauge: drawGauge, table: drawTable,
    'state-timeline': drawStates, text: drawText,
};

const fill = (text) => text.replace(/\$\{?(\w+)\}?/g, (whole, name) => page.selected[name]?.join(' + ') ?? whole);

function place(panel) {
    const { x, y, w, h } = panel.gridPos;
    const column = (document.querySelector('main').clientWidth + gap) / 24;
    const box = element('section', `panel ${panel.type}${panel.transparent ? ' transparent' : ''}`);
    box.style.cssText = `left:${x * column}px;top:${y * unitHeight}px;width:${w * column - gap}px;height:${h * unitHeight - gap}px`;
    box.dataset.title = panel.title;
    box.dataset.type = panel.type;
    document.querySelector('main').append(box);
    return box;
}

// Pixels inside the axes that are more than a breath of colour, as the grid and the shades of alerts are.
function countPixels({ ctx, bbox, root }) {
    const { data } = ctx.getImageData(bbox.left, bbox.top, bbox.width, bbox.height);
    let count = 0;
    for (let i = 3; i < data.length; i += 4) {
        count += data[i] > 64;
    }
    root.closest('section').dataset.pixels = count;
}

function draw(panel) {
    const box = place(panel);
    if (panel.type === 'row') {
        box.textContent = `⌄ ${fill(panel.title)}`;
        return;
    }
    const title = element('div', 'title', fill(panel.title));
    if (panel.links?.length) {
        title.append(element('span', 'info', '↗'));
    }
    const body = element('div', 'body');
    box.append(title, body);
    box.dataset.drawn = kinds[panel.type](panel, body);
    if (box.dataset.drawn === '0' && !body.children.length) {
        body.append(element('div', 'nothing', panel.fieldConfig?.defaults.noValue ?? 'No data'));
    }
    box.dataset.clipped = title.scrollWidth > title.clientWidth;
    box.dataset.overflows = body.scrollHeight > body.clientHeight + 1;
}

function heading() {
    const header = document.querySelector('header');
    header.append(element('h1', '', page.dashboard.title));
    for (const { name, label, hide, type } of page.dashboard.templating.list) {
        if (!hide) {
            const shown = element('div', 'variable');
            const value = type === 'datasource' ? 'Prometheus' : page.selected[name]?.join(' + ') ?? 'All';
            shown.append(element('b', '', label), element('span', '', value));
            header.append(shown);
        }
    }
    header.append(element('span', 'end', `${clock(page.times[0], true)} to ${clock(page.times.at(-1), true)}`));
}

heading();
const panels = page.dashboard.panels.flatMap((panel) => [panel, ...(panel.panels ?? [])]);
document.querySelector('main').style.height = `${Math.max(...panels.map(({ gridPos }) => gridPos.y + gridPos.h)) * unitHeight}px`;
panels.forEach(draw);
// uPlot paints in a microtask of its own, which is queued before this one
queueMicrotask(() => {
    plots.forEach(countPixels);
    document.body.dataset.done = 'true';
});
