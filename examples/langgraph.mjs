#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// An agent whose work is a graph of LangGraph: it starts from the brief, and what it decided goes to the next agent.
//
//     npm install @langchain/langgraph @langchain/core    # and the client, as in pipeline.mjs
//     node examples/langgraph.mjs     # beside a sidecar with pipeline.yml
import { MemorySpine, agent, serving } from "handoff";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { FakeListChatModel } from "@langchain/core/utils/testing";

// Your model; this one plays a model with two answers.
const model = new FakeListChatModel({ responses: ["429 and time-outs are safe to repeat", "three retries, with jitter"] });

const State = Annotation.Root({
  brief: Annotation(),
  decisions: Annotation({ reducer: (before, more) => before.concat(more), default: () => [] }),
});
const ask = (question) => async ({ brief, decisions }) =>
  ({ decisions: [(await model.invoke([brief, ...decisions, question].join("\n\n"))).content] });
const graph = new StateGraph(State)
  .addNode("failures", ask("Which failures are safe to repeat?"))
  .addNode("policy", ask("How often, and when?"))
  .addEdge(START, "failures").addEdge("failures", "policy").addEdge("policy", END)
  .compile();

const analyst = agent("analyst", async (handoff) => {
  const { decisions } = await graph.invoke({ brief: await handoff.brief() });
  handoff.next("Write the retries", { state: { decisions } }); // to the next agent of the pipeline
});

const coder = agent("code-generator", async (handoff) => {
  console.log(`${handoff.task.summary}: ${handoff.task.decisions.join("; ")}`);
  running.stop();
});

const spine = new MemorySpine({ source_agent: "researcher" });
const running = await serving([analyst, coder], { spine });
await spine.handOff({ target_agent: "analyst", task_summary: "Decide how to retry" });
await running.ended;
spine.close();
