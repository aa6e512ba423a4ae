// SPDX-License-Identifier: Apache-2.0
//
// Runs what harness/clients.py writes to it, a function on each line, with the package "handoff".
import * as handoff from "handoff";
import { createInterface } from "node:readline";

const kept = {};
const AsyncFunction = (async () => {}).constructor;
console.log = console.error; // what is printed must not get among the replies

async function run({ number, code, given }) {
  const reply = { number };
  try {
    reply.value = await new AsyncFunction("handoff", "kept", ...Object.keys(given), code)(handoff, kept, ...Object.values(given));
  } catch (error) {
    reply.error = { ...error, name: error.name, message: error.message, isHandoffError: error instanceof handoff.HandoffError };
  }
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}

for await (const line of createInterface({ input: process.stdin })) void run(JSON.parse(line));
