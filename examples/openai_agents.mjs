#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// An agent of the OpenAI Agents SDK. Its handoffs inside the SDK are observed, so that they count in the metrics; the one
// to another process is carried by the sidecar.
//
//     npm install @openai/agents zod    # and the client, as in pipeline.mjs
//     node examples/openai_agents.mjs     # beside a sidecar with pipeline.yml
import { MemorySpine, agent, serving } from "handoff";
import { Agent, Runner, Usage, setTracingDisabled } from "@openai/agents";

// Your model; this one plays a model that hands to the writer, which then answers.
const said = [
  { type: "function_call", callId: "1", name: "transfer_to_writer", arguments: "{}", status: "completed" },
  { type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: "Three retries." }] },
];
const model = { getResponse: async () => ({ usage: new Usage(), output: [said.shift()] }) };
setTracingDisabled(true);

const writer = new Agent({ name: "writer", instructions: "You write code.", model });
const planner = Agent.create({ name: "planner", instructions: "You plan.", model, handoffs: [writer] });

const spine = new MemorySpine({ source_agent: "analyst" });
const observations = [];
const runner = new Runner();
runner.on("agent_handoff", (_context, from, to) => observations.push(
  { source_agent: from.name, target_agent: to.name, outcome: "acknowledged", timestamp: new Date().toISOString() }));

const coder = agent("code-generator", async (handoff) => {
  const { finalOutput } = await runner.run(planner, await handoff.brief());
  const { accepted } = await spine.observe(observations.splice(0));
  console.log(`${accepted} handoff observed`);
  handoff.next(`Review this: ${finalOutput}`); // to the next agent of the pipeline
});

const reviewer = agent("reviewer", async (handoff) => {
  console.log(handoff.task.summary);
  running.stop();
});

const running = await serving([coder, reviewer], { spine });
await spine.handOff({ target_agent: "code-generator", task_summary: "Write the retries" });
await running.ended;
spine.close();
