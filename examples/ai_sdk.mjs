#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// An agent of the Vercel AI SDK: the brief is its prompt, and a tool hands the task on.
//
//     npm install ai zod    # and the client, as in pipeline.mjs
//     node examples/ai_sdk.mjs        # beside a sidecar with pipeline.yml
import { MemorySpine, agent, serving } from "handoff";
import { generateText, stepCountIs, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { z } from "zod";

// Your model; this one plays a model that calls the tool, and then says that it is done.
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const said = [
  { content: [{ type: "tool-call", toolCallId: "1", toolName: "hand_off",
    input: JSON.stringify({ target_agent: "reviewer", summary: "Review the retries" }) }], finishReason: { unified: "tool-calls" } },
  { content: [{ type: "text", text: "I wrote the retries." }], finishReason: { unified: "stop" } },
];
const model = new MockLanguageModelV3({ doGenerate: async () => ({ ...said.shift(), usage, warnings: [] }) });

// The tool with which a model hands on. It takes effect when the agent's function returns, with the acknowledgement.
const handOff = (handoff, history) => tool({
  description: "Hand the task to another agent, once your part of it is done.",
  inputSchema: z.object({ target_agent: z.string(), summary: z.string() }),
  execute: async ({ target_agent, summary }) => {
    handoff.next(summary, { target_agent, execution_history: history });
    return "It is handed on as soon as you have finished.";
  },
});

const history = [];
const coder = agent("code-generator", async (handoff) => {
  const { text } = await generateText({ model, system: "You write code.", prompt: await handoff.brief(),
    tools: { hand_off: handOff(handoff, history) }, stopWhen: stepCountIs(5) });
  history.push({ agent: "code-generator", action: text }); // the history of the successor, which is sent after this
});

const reviewer = agent("reviewer", async (handoff) => {
  console.log(`${handoff.task.summary}; ${handoff.history.at(-1).action}`);
  running.stop();
});

const spine = new MemorySpine({ source_agent: "user" });
const running = await serving([coder, reviewer], { spine });
await spine.handOff({ target_agent: "code-generator", task_summary: "Write the retries" });
await running.ended;
spine.close();
