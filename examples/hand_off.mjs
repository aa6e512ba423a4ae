#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// A sending agent with the TypeScript client (docs/clients.md): two steps of one task, and what can go wrong.
//
//     node examples/hand_off.mjs analyst reviewer
import { HandoffError, MemorySpine } from "handoff";

const [firstAgent, secondAgent] = process.argv.slice(2);
const spine = new MemorySpine({ source_agent: "researcher" }); // at $HANDOFF_API_URL
try {
  await spine.putMemory("gateway", "The gateway answers 429 under load and never charges twice");
  const first = await spine.handOff({ target_agent: firstAgent, task_summary: "Compare the gateways",
    intent: "Make the payments reliable", memory_ids: ["gateway"], constraints: { max_tokens: 2000 } });
  console.log(`${first.id} ${first.state} after ${first.attempts} attempt(s)`);
  const second = await spine.handOff({ target_agent: secondAgent, task_summary: "Review the comparison",
    task_id: first.task_id }, { wait: false });
  console.log(`${second.id} ${second.state}: see handoffctl task ${second.task_id}`);
} catch (error) {
  if (!(error instanceof HandoffError)) throw error; // what passes was already repeated, under one idempotency key
  console.error(error.message + (error.handoff ? `; see handoffctl attempts ${error.handoff.id}` : ""));
  process.exitCode = 1;
} finally {
  spine.close();
}
