// SPDX-License-Identifier: Apache-2.0
// The rival of tests/bench/bench_tokens.c: tiktoken's wasm on the same text in the same minute.
//
//   node bench.mjs FILE...
//
// For every line on stdin it times one round over each file, in o200k_base, and prints for each the
// tokens and the nanoseconds of processor time that one count took.
import fs from 'node:fs';
import readline from 'node:readline';
import { createRequire } from 'node:module';

const { get_encoding } = createRequire(import.meta.url)('tiktoken');
const encoding = get_encoding('o200k_base');
const texts = process.argv.slice(2).map((file) => fs.readFileSync(file, 'utf8'));
for (let warm = 0; warm < 20; warm++) texts.forEach((text) => encoding.encode_ordinary(text));

for await (const _ of readline.createInterface({ input: process.stdin })) {
  for (const text of texts) {
    const rounds = 20;
    let count = 0;
    const start = process.cpuUsage();
    for (let i = 0; i < rounds; i++) count = encoding.encode_ordinary(text).length;
    const { user, system } = process.cpuUsage(start);
    const each = (1000 * (user + system)) / rounds;
    process.stdout.write(`${count} ${Math.round(each)}\n`);
  }
}
