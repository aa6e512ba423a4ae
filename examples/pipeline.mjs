#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// A pipeline of four agents with the TypeScript client, in one program (docs/clients.md).
//
//     npm ci --prefix clients/typescript && npm install --no-save ./clients/typescript
//     node examples/pipeline.mjs         # beside a sidecar with pipeline.yml
import { MemorySpine, agent, serving } from "handoff";

const spine = new MemorySpine({ source_agent: "user" });

const research = agent("researcher", async (handoff) => {
  await spine.putMemory("gateway", "The gateway answers 429 under load and never charges twice");
  handoff.next("Decide how to retry", { memory_ids: ["gateway"] });
});

const analyse = agent("analyst", async (handoff) => {
  const { content } = await handoff.memories.get("gateway");
  handoff.next("Write the retries", { state: { decisions: [`Back off: ${content}`] } });
});

const write = agent("code-generator", (handoff) => {
  handoff.next("Review the code", { constraints: { must: ["cover the backoff with tests"] } });
});

const review = agent("reviewer", async ({ task, constraints, task_id }) => {
  for (const text of [task.intent, task.decisions, constraints]) console.log(JSON.stringify(text));
  await spine.completeTask(task_id);
  running.stop();
});

const running = await serving([research, analyse, write, review], { spine });
await spine.handOff({ target_agent: "researcher", task_summary: "Read up on the gateway", intent: "Safe payments",
  constraints: { max_retries: 3 } });
await running.ended;
spine.close();
