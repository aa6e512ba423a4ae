#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// A receiving agent for long work: it answers 202 immediately and acknowledges through the API when the
// work is done (within ack_timeout; after that the handoff is delivered again).
//
//     node examples/receive.mjs 9002    # agents: {code-generator: {url: "http://127.0.0.1:9002/"}}
//
// Delivery is at least once, so the agent remembers the ids it has processed.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

const api = process.env.HANDOFF_API_URL ?? "http://127.0.0.1:8780";
const token = process.env.HANDOFF_TOKEN_FILE && readFileSync(process.env.HANDOFF_TOKEN_FILE, "utf8").trim();
const done = new Set(); // a real agent stores it with its results, in one transaction
const working = new Set();

// Your agent. The message of an error it throws becomes the reason of the refusal.
async function work(envelope) {
  const { task, constraints } = envelope.context;
  if (constraints.reject) throw new Error("not work for a code generator");
  console.log(`${envelope.target_agent} works for ${envelope.source_agent}: ${task.summary}`);
}

async function answer(id, verb, body = {}) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const reply = await fetch(`${api}/v1/handoffs/${id}/${verb}`,
    { method: "POST", headers, body: JSON.stringify(body) });
  if (!reply.ok) console.error(`${verb} of ${id}: ${(await reply.json()).code}`);
}

async function take(id, envelope) {
  working.add(id);
  try {
    await work(envelope);
    done.add(id);
    await answer(id, "ack");
  } catch (error) {
    await answer(id, "nack", { reason: error.message, retry: false });
  } finally {
    working.delete(id);
  }
}

const server = createServer(async (request, response) => {
  const envelope = await json(request);
  const id = request.headers["handoff-id"];
  if (done.has(id)) return response.writeHead(204, { "Handoff-Ack": id }).end();
  response.writeHead(202).end();
  if (!working.has(id)) take(id, envelope).catch(console.error);
});

server.listen(Number(process.argv[2]), "127.0.0.1", () =>
  console.log(`listening on http://127.0.0.1:${server.address().port}/handoffs`));
