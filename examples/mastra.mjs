#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// An agent of Mastra: the brief is its prompt, its tool reads the memories of the handoff, and its answer is handed on.
//
//     npm install @mastra/core ai zod    # and the client, as in pipeline.mjs; Mastra asks for Node.js 22.13
//     node examples/mastra.mjs           # beside a sidecar with pipeline.yml
import { MemorySpine, agent, serving } from "handoff";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { MockLanguageModelV3 } from "ai/test";
import { z } from "zod";

// Your model; this one plays a model that reads a memory with the tool, and then answers.
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const said = [
  { content: [{ type: "tool-call", toolCallId: "1", toolName: "readMemory", input: '{"id":"gateway"}' }],
    finishReason: { unified: "tool-calls" } },
  { content: [{ type: "text", text: "Back off, at most three times" }], finishReason: { unified: "stop" } },
];
const model = new MockLanguageModelV3({ doGenerate: async () => ({ ...said.shift(), usage, warnings: [] }) });

const read = [];
const readMemory = (handoff) => createTool({
  id: "readMemory",
  description: "Read a memory that the brief mentions by its id.",
  inputSchema: z.object({ id: z.string() }),
  execute: async ({ id }) => {
    read.push((await handoff.memories.get(id))?.content);
    return read.at(-1) ?? "There is no such memory.";
  },
});

const analyst = agent("analyst", async (handoff) => {
  const planner = new Agent({ id: "planner", name: "planner", instructions: "You decide how to retry.", model,
    tools: { readMemory: readMemory(handoff) } });
  const { text } = await planner.generate(await handoff.brief());
  handoff.next("Write the retries", { state: { decisions: [text] } }); // to the next agent of the pipeline
});

const coder = agent("code-generator", async (handoff) => {
  console.log(`${handoff.task.summary}: ${handoff.task.decisions.join("; ")}; because: ${read}`);
  running.stop();
});

const spine = new MemorySpine({ source_agent: "researcher" });
await spine.putMemory("gateway", "The gateway never charges twice", { summary: "about the gateway" });
const running = await serving([analyst, coder], { spine });
await spine.handOff({ target_agent: "analyst", task_summary: "Decide how to retry", memory_ids: ["gateway"], strategy: "lazy" });
await running.ended;
spine.close();
