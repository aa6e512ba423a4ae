// SPDX-License-Identifier: Apache-2.0
//
// Handoffs of an inbox, by long polls: one loop for each handoff that is worked on at the same time. Polls have their own
// connections: stop() cuts them off, and the handoff of a poll that was cut off stays in the inbox.
import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { isPassing, type MemorySpine } from "./client.js";
import type { Worker } from "./receive.js";
import { Received } from "./received.js";

const POLL_SECONDS = 20;
const BACKOFF_SECONDS = 5;

export class Inbox {
  private readonly ended = new AbortController();
  private readonly polls: MemorySpine;
  private readonly loops: Promise<void>[];

  constructor(private readonly worker: Worker, fail: (error: unknown) => void) {
    this.polls = worker.spine.copy({ retry: { seconds: 0 } });
    const { concurrency: length, name } = worker.agent;
    setMaxListeners(0, this.ended.signal); // each poll is one, and Node.js warns of more than ten
    this.loops = Array.from({ length }, () => receiveForever(() => this.poll(), this.ended.signal, name).catch(fail));
  }

  async stop(): Promise<void> {
    this.ended.abort();
    await Promise.all(this.loops);
    this.polls.close();
  }

  private async poll(): Promise<void> {
    const { agent, spine } = this.worker;
    const response = await this.polls.pullHandoff(agent.name, POLL_SECONDS, this.ended.signal);
    if (!response) return;
    const handoff = await Received.from(agent.name, spine, response.headers, response.body);
    handoff.answersByApi = true;
    await this.worker.work(handoff);
  }
}

/** Repeats `receive` until the agent is stopped, with growing random waits while it fails for a passing reason. */
export async function receiveForever(receive: () => Promise<void>, signal: AbortSignal, agent: string): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    try {
      await receive();
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      if (!isPassing(error)) { // it would not get better by itself: a wrong token, an unknown agent
        console.error(`handoff: ${agent} receives no more: ${String(error)}`);
        throw error;
      }
      if (failures++ === 0) console.error(`handoff: the inbox of ${agent} cannot be read now: ${error.message}`);
      const wait = Math.max(error.retryAfter ?? 0, Math.random() * Math.min(BACKOFF_SECONDS, 0.1 * 2 ** failures));
      await sleep(1000 * wait, undefined, { signal }).catch(() => undefined);
    }
  }
}
