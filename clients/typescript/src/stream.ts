// SPDX-License-Identifier: Apache-2.0
//
// Handoffs of an inbox as a stream of events: one connection for all that are worked on at the same time. The sidecar leases
// no more handoffs to the stream than the agent works on at once. A connection that breaks is opened again with the id of
// the last event that was read, so that the sidecar knows which handoffs arrived.
import type { MemorySpine } from "./client.js";
import { UnreachableError } from "./errors.js";
import { events, type Event } from "./events.js";
import { receiveForever } from "./inbox.js";
import type { Worker } from "./receive.js";
import { Received } from "./received.js";
import type { Following } from "./transport.js";
import { Turns } from "./turns.js";

export const LEASES_MAX = 32; // that a stream may hold
export const limits = { silence_ms: 60000 }; // there is a comment every 15 s
const LEAVE_MS = 5000; // for what is on its way when the agent stops

export class Stream {
  private readonly ended = new AbortController();
  private readonly cut = new AbortController();
  private readonly connection: MemorySpine;
  private readonly working = new Set<Promise<void>>();
  private readonly turns: Turns;
  private readonly room: Turns;
  private readonly loop: Promise<void>;
  private following?: Following;
  private last?: string;

  constructor(private readonly worker: Worker, fail: (error: unknown) => void) {
    const { agent, spine } = worker;
    this.connection = spine.copy({ retry: { seconds: 0 } });
    this.turns = new Turns(agent.concurrency);
    // after a restart of the sidecar, handoffs arrive beside those that are still worked on: so many wait
    this.room = new Turns(2 * agent.concurrency);
    this.loop = receiveForever(() => this.follow(), this.ended.signal, agent.name).catch(fail);
  }

  /** Leaves, and finishes what has arrived. */
  async stop(): Promise<void> {
    this.ended.abort();
    this.following?.leave();
    const timer = setTimeout(() => this.cut.abort(), LEAVE_MS);
    await this.loop;
    clearTimeout(timer);
    this.connection.close();
    await Promise.all(this.working);
  }

  /** One connection, from its opening to its end. Throws if it brought nothing. */
  private async follow(): Promise<void> {
    const { agent } = this.worker;
    const following = await this.connection.followInbox(agent.name, { leases: agent.concurrency, last: this.last,
      timeout: limits.silence_ms, signal: this.cut.signal });
    this.following = following;
    if (this.ended.signal.aborted) following.leave();
    let alive = false;
    try {
      for await (const event of events(following.chunks)) alive = (await this.take(event)) || alive;
    } catch (error) {
      if (!alive || !(error instanceof UnreachableError)) throw error;
    } finally {
      this.following = undefined;
    }
    if (!alive && !this.ended.signal.aborted) throw new UnreachableError({ code: "unreachable", detail: "the stream ended" });
  }

  /** False for the opening, which brings an id alone. */
  private async take(event: Event | undefined): Promise<boolean> {
    if (event?.data !== undefined) await this.begin(event.data);
    this.last = event?.id ?? this.last;
    return event === undefined || event.data !== undefined;
  }

  private async begin(data: string): Promise<void> {
    const { headers, body } = JSON.parse(data) as { headers: Record<string, string>; body: object | string };
    const { agent, spine } = this.worker;
    const names = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
    const handoff = await Received.from(agent.name, spine, Object.fromEntries(names) as Record<string, string>, body);
    handoff.answersByApi = true;
    if (!this.worker.begin(handoff)) return; // from here on its lease is extended
    await this.room.take();
    const work: Promise<void> = this.turns.run(() => this.worker.work(handoff))
      .catch((error: unknown) => console.error(`handoff: ${handoff.id} was not answered:`, error))
      .then(() => {
        this.room.give();
        this.working.delete(work);
      });
    this.working.add(work);
  }
}
