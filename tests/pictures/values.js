// SPDX-License-Identifier: Apache-2.0
//
// values.js - numbers to words and colours, as Grafana does it: units, mappings, thresholds, and the field
// configuration with its overrides.
'use strict';

const colours = {
    green: '#73bf69', red: '#f2495c', orange: '#ff9830', yellow: '#fade2a', blue: '#5794f2', purple: '#b877d9',
    'dark-red': '#c4162a', text: '#ccccdc',
};
const palette = ['#73bf69', '#f2cc0c', '#8ab8ff', '#ff780a', '#f2495c', '#5794f2', '#b877d9', '#705da0', '#37872d',
    '#fade2a', '#447ebc', '#c15c17'];
const paint = (name) => colours[name] ?? name;

// --- units ------------------------------------------------------------------------------------------

function digits(value, decimals) {
    if (decimals !== undefined) {
        return value.toFixed(decimals);
    }
    const size = Math.abs(value);
    const wanted = size === 0 ? 0 : size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : Math.min(4, 2 - Math.floor(Math.log10(size)));
    return String(Number(value.toFixed(wanted)));
}

function scaled(value, steps, decimals) {
    const [factor, unit] = steps.findLast(([factor]) => Math.abs(value) >= factor) ?? steps[0];
    return `${digits(value / factor, decimals)}${unit}`;
}

const bytes = ['B', 'KiB', 'MiB', 'GiB', 'TiB'].map((unit, power) => [1024 ** power, ` ${unit}`]);
const rates = ['B/s', 'kB/s', 'MB/s', 'GB/s'].map((unit, power) => [1000 ** power, ` ${unit}`]);
const times = [[1e-6, ' µs'], [1e-3, ' ms'], [1, ' s'], [60, ' mins'], [3600, ' hours'], [86400, ' days']];
const shorts = [[1, ''], [1e3, ' K'], [1e6, ' Mil'], [1e9, ' Bil']];

function ago(milliseconds) {
    const seconds = (page.at * 1000 - milliseconds) / 1000;
    const [factor, unit] = [[1, 'second'], [60, 'minute'], [3600, 'hour'], [86400, 'day']].findLast(([one]) => seconds >= one) ?? [1, 'second'];
    const count = Math.max(0, Math.round(seconds / factor));
    return `${count} ${unit}${count === 1 ? '' : 's'} ago`;
}

const formats = {
    short: (value, decimals) => scaled(value, shorts, decimals),
    locale: (value, decimals) => value.toLocaleString('en', { maximumFractionDigits: decimals ?? 2 }),
    percentunit: (value, decimals) => `${digits(value * 100, decimals)}%`,
    s: (value, decimals) => (value === 0 ? '0 s' : scaled(value, times, decimals)),
    bytes: (value, decimals) => scaled(value, bytes, decimals),
    Bps: (value, decimals) => scaled(value, rates, decimals),
    dateTimeFromNow: ago,
};

function format(value, unit, decimals) {
    if (unit?.startsWith('suffix:')) {
        return `${digits(value, decimals)}${unit.slice('suffix:'.length)}`;
    }
    if (!formats[unit]) {
        throw new Error(`the pictures do not know the unit ${unit}`);
    }
    return formats[unit](value, decimals);
}

// --- fields -----------------------------------------------------------------------------------------

const matchers = {
    byName: (field, name) => field === name,
    byRegexp: (field, pattern) => new RegExp(pattern.replace(/^\/|\/$/g, '')).test(field),
};

// The configuration of one field: the panel's defaults and the overrides that match its name.
function configOf(panel, name) {
    const config = structuredClone(panel.fieldConfig.defaults);
    config.custom ??= {};
    for (const { matcher, properties } of panel.fieldConfig.overrides ?? []) {
        if (matchers[matcher.id](name, matcher.options)) {
            for (const { id, value } of properties) {
                if (id.startsWith('custom.')) {
                    config.custom[id.slice('custom.'.length)] = value;
                } else {
                    config[id] = value;
                }
            }
        }
    }
    return config;
}

const thresholdColour = (config, value) =>
    paint((config.thresholds.steps.findLast((step) => step.value === null || value >= step.value) ?? config.thresholds.steps[0]).color);

// {text, colour} of a value; none is the text for no value.
function display(config, value) {
    if (value === undefined || value === null || Number.isNaN(value)) {
        return { text: config.noValue ?? '', colour: '#8e8e99' };
    }
    const mapped = (config.mappings ?? []).find((mapping) => mapping.type === 'value' && mapping.options[String(value)]);
    if (mapped) {
        const { text, color } = mapped.options[String(value)];
        return { text, colour: paint(color) };
    }
    return { text: format(value, config.unit, config.decimals), colour: thresholdColour(config, value) };
}

function seriesColour(config, index) {
    return config.color?.mode === 'fixed' ? paint(config.color.fixedColor) : palette[index % palette.length];
}

const clock = (seconds, withSeconds) => {
    const date = new Date(seconds * 1000);
    const two = (number) => String(number).padStart(2, '0');
    return `${two(date.getHours())}:${two(date.getMinutes())}${withSeconds ? `:${two(date.getSeconds())}` : ''}`;
};
