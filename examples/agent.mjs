#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// A receiving agent with the TypeScript client (docs/clients.md). How handoffs reach it is one option.
//
//     node examples/agent.mjs reviewer inbox      # or stream, or http://127.0.0.1:9001
import { Refused, agent, serve } from "handoff";

const [name, receive] = process.argv.slice(2);

// Your agent. Returning acknowledges, and a repeat of the handoff does not come here.
const work = agent(name, async (handoff) => {
  if (handoff.constraints.reject) throw new Refused(`not work for ${name}`); // parked; any other error is tried again
  handoff.flagGaps(await handoff.stillMissing()); // the sender and the task show what it worked without
  console.log(`${name} works for ${handoff.source_agent}: ${handoff.task.summary}`);
  for await (const memory of handoff.memories) console.log(`  ${memory.id}: ${memory.content ?? memory.summary}`);
  const { then } = handoff.constraints;
  if (then) handoff.next("Go on", { target_agent: then }); // with the acknowledgement, in one commit
}, { receive });

await serve([work]);
