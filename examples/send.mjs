#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// A sending agent: hands off a task, waits until it is acknowledged, and hands off its next step.
//
//     node examples/send.mjs analyst reviewer    # two configured agents
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const api = process.env.HANDOFF_API_URL ?? "http://127.0.0.1:8780";
const token = process.env.HANDOFF_TOKEN_FILE && readFileSync(process.env.HANDOFF_TOKEN_FILE, "utf8").trim();

class HandoffError extends Error {
  constructor(problem) { // application/problem+json
    super(`${problem.code}: ${problem.detail}`);
    this.code = problem.code;
    this.handoff = problem.handoff; // if it was accepted, and then parked or expired
  }
}

// Hands off exactly once, with any number of retries: the same key gives the same handoff.
async function handOff(request, more = {}) {
  const headers = { "Idempotency-Key": randomUUID(), ...more };
  if (token) headers.Authorization = `Bearer ${token}`;
  const body = JSON.stringify({ source_agent: "researcher", ...request });
  for (;;) {
    const reply = await fetch(`${api}/v1/handoffs`, { method: "POST", headers, body })
      .catch((error) => console.error(`unreachable: ${error.cause?.message}`));
    if (reply?.ok) return reply.json();
    const seconds = reply ? reply.headers.get("Retry-After") : "1"; // temporary: circuit_open ...
    if (seconds === null) throw new HandoffError(await reply.json());
    await sleep(1000 * seconds);
  }
}

const [target, next] = process.argv.slice(2);
try {
  const first = await handOff({
    target_agent: target,
    intent: "Make the payments reliable",
    task_summary: "Compare the retry policies",
    constraints: { max_tokens: 2000, do_not: ["change the public interface"] },
  });
  console.log(`${first.id} ${first.state} after ${first.attempts} attempt(s)`);
  const second = await handOff({
    target_agent: next,
    task_id: first.task_id,
    previous_id: first.id, // inherits intent, constraints and history
    task_summary: "Review the comparison",
  }, { Prefer: "respond-async" }); // answered once it is durable
  console.log(`${second.id} ${second.state}: see handoffctl task ${second.task_id}`);
} catch (error) {
  console.error(error.message);
  if (error.handoff) console.error(`see handoffctl attempts ${error.handoff.id}`);
  process.exitCode = 1;
}
