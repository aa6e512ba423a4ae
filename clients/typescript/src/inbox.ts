// SPDX-License-Identifier: Apache-2.0
//
// Handoffs of an inbox, by long polls: one loop for each handoff that is worked on at the same time. Polls have their own
// connections: stop() cuts them off, and the handoff of a poll that was cut off stays in the inbox.
import { setTimeout as sleep } from "node:timers/promises";
import { isPassing, MemorySpine } from "./client.js";
import type { Worker } from "./receive.js";
import { Received } from "./received.js";

const POLL_SECONDS = 20;
const BACKOFF_SECONDS = 5;

export class Inbox {
  private readonly ended = new AbortController();
  private readonly polls: MemorySpine;
  private readonly loops: Promise<void>[];

  constructor(private readonly worker: Worker, fail: (error: unknown) => void) {
    this.polls = new MemorySpine({ ...worker.spine.options, retry: { seconds: 0 } });
    this.loops = Array.from({ length: worker.agent.concurrency }, () => this.pollForever().catch(fail));
  }

  async stop(): Promise<void> {
    this.ended.abort();
    await Promise.all(this.loops);
    this.polls.close();
  }

  private async pollForever(): Promise<void> {
    const { signal } = this.ended;
    let failures = 0;
    while (!signal.aborted) {
      try {
        await this.poll(signal);
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        if (!isPassing(error)) throw error; // it would not get better by itself: a wrong token, an unknown agent
        if (failures++ === 0) console.error(`handoff: the inbox of ${this.worker.agent.name} cannot be read: ${error.message}`);
        const wait = Math.max(error.retryAfter ?? 0, Math.random() * Math.min(BACKOFF_SECONDS, 0.1 * 2 ** failures));
        await sleep(1000 * wait, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  private async poll(signal: AbortSignal): Promise<void> {
    const { agent, spine } = this.worker;
    const response = await this.polls.pullHandoff(agent.name, POLL_SECONDS, signal);
    if (!response) return;
    const handoff = await Received.from(agent.name, spine, response.headers, response.body);
    handoff.answersByApi = true;
    await this.worker.work(handoff);
  }
}
