// SPDX-License-Identifier: Apache-2.0
//
// The receiving side: a function that is called with each handoff.
//
//     const coder = agent("code-generator", async (handoff) => {
//       ...                                     // returning acknowledges
//       throw new Refused("not my work");       // refuses for good; any other error: to be tried again
//     });
//     await serve([coder]);
//
// How handoffs arrive is one option: receive: "inbox" polls, receive: "stream" follows the inbox over one connection,
// receive: "http://127.0.0.1:9001" listens there. In each, a duplicate is answered again and not done again, and the time
// to answer is extended while the function runs.
import { AsyncLocalStorage } from "node:async_hooks";
import { MemorySpine } from "./client.js";
import { Refused } from "./errors.js";
import { Inbox } from "./inbox.js";
import { PushServer } from "./push.js";
import { acknowledgement, Received } from "./received.js";
import { defaultPath, SeenFile, type Answer, type Seen } from "./seen.js";
import { LEASES_MAX, Stream } from "./stream.js";
import { continued } from "./trace.js";

export type AgentFunction = (handoff: Received) => unknown;

export interface AgentOptions {
  /** "inbox": poll for handoffs. "stream": follow the inbox as events. "http://HOST:PORT": listen there, as its `url` says. */
  receive?: string;
  /** How many handoffs it works on at the same time. */
  concurrency?: number;
  /** Where it remembers what it has done: a file, or a store. */
  seen?: string | Seen;
  /** When pushed to: seconds until it answers "later" and acknowledges over the API; less than the agent's `timeout`. */
  answer_within?: number;
}

export interface Agent {
  readonly name: string;
  readonly run: AgentFunction;
  readonly receive: string;
  readonly concurrency: number;
  readonly seen?: string | Seen;
  readonly answer_within: number;
}

/** Makes a function an agent: one that handoffs are addressed to by this name. */
export function agent(name: string, run: AgentFunction, options: AgentOptions = {}): Agent {
  const { receive = "inbox", concurrency = 1, answer_within = 5 } = options;
  if (!["inbox", "stream"].includes(receive) && !receive.startsWith("http://")) {
    throw new TypeError(`receive ${receive}: allowed are inbox, stream and http://HOST:PORT`);
  }
  if (!(concurrency >= 1) || (receive === "stream" && concurrency > LEASES_MAX)) {
    const most = receive === "stream" ? `1 to ${LEASES_MAX} with receive stream` : "1 or more";
    throw new TypeError(`concurrency ${concurrency}: allowed is ${most}`);
  }
  if (/GeneratorFunction\]$/.test(Object.prototype.toString.call(run))) {
    throw new TypeError(`the function of ${name} is a generator, so a call would not run it: make it a function`);
  }
  return { name, run, receive, concurrency, seen: options.seen, answer_within };
}

const EXTEND_SECONDS = 20; // between extensions of a handoff without a lease; ack_timeout is 5 minutes by default
const REASON_CHARACTERS = 1000;

const inside = new AsyncLocalStorage<{ worker: Worker; returned: boolean }>();

/** Does what arrives for one agent, each handoff once. */
export class Worker {
  private readonly seen: Seen;
  private readonly working = new Map<string, { handoff: Received; extended: number }>();
  private readonly extender: NodeJS.Timeout;

  constructor(readonly agent: Agent, readonly spine: MemorySpine) {
    const { seen } = agent;
    this.seen = typeof seen === "object" ? seen : new SeenFile(seen ?? defaultPath(agent.name));
    this.extender = setInterval(() => this.extendAll(), 1000);
  }

  /** Does it and returns the answer; undefined if that comes later, over the API. */
  async work(handoff: Received): Promise<Answer | undefined> {
    if (!this.begin(handoff)) return undefined;
    const answer = await this.call(handoff);
    if (!answer) return undefined;
    this.working.delete(handoff.id);
    if (!handoff.answersByApi) return answer;
    await this.answerByApi(handoff, answer).catch((error: unknown) =>
      console.error(`handoff: the answer to ${handoff.id} was not taken: ${String(error)}`));
    return undefined;
  }

  async close(): Promise<void> {
    clearInterval(this.extender);
    if (this.seen instanceof SeenFile && this.seen !== this.agent.seen) this.seen.close();
  }

  /** From now on it is extended. False if it is being worked on already: the answer to that counts for both. */
  begin(handoff: Received): boolean {
    handoff.settle = (settled, answer) => this.settleLater(settled, answer);
    const before = this.working.get(handoff.id);
    if (before?.handoff === handoff) return true;
    if (before) before.handoff.answersByApi = true; // its own way to answer may be gone
    else this.working.set(handoff.id, { handoff, extended: performance.now() });
    return !before;
  }

  private async call(handoff: Received): Promise<Answer | undefined> {
    try {
      const before = await this.seen.get(handoff.id); // after begin(): one that was done meanwhile is there
      if (before) return before;
      await this.run(handoff);
    } catch (error) {
      if (error instanceof Refused) return { nack: handoff.id, reason: error.message, retry: false };
      console.error(`handoff: ${handoff.id} failed at ${this.agent.name}:`, error);
      return { nack: handoff.id, reason: String(error).slice(0, REASON_CHARACTERS), retry: true };
    }
    if (handoff.deferred) return undefined;
    const answer = acknowledgement(handoff);
    await this.remember(handoff, answer);
    return answer;
  }

  private async run(handoff: Received): Promise<void> {
    const call = { worker: this, returned: false };
    try {
      await inside.run(call, () => continued(handoff.trace, () => this.agent.run(handoff)));
    } finally {
      call.returned = true;
    }
  }

  private async remember(handoff: Received, answer: Answer): Promise<void> {
    if (!("ack" in answer)) return;
    try {
      await this.seen.add(handoff.id, answer);
    } catch (error) {
      console.error(`handoff: ${handoff.id} is done, but cannot be remembered as done:`, error);
    }
  }

  private async settleLater(handoff: Received, answer: Answer): Promise<void> {
    await this.remember(handoff, answer);
    this.working.delete(handoff.id);
    await this.answerByApi(handoff, answer);
  }

  private async answerByApi(handoff: Received, answer: Answer): Promise<void> {
    if ("ack" in answer) {
      const { next, missing } = answer; // next has the form in which it is sent, as in the answer to a push
      await this.spine.json("POST", `/v1/handoffs/${encodeURIComponent(handoff.id)}/ack`, { members: { next, missing } });
    } else await this.spine.nackHandoff(handoff.id, answer.reason, answer.retry);
  }

  private extendAll(): void {
    for (const entry of this.working.values()) {
      if (performance.now() - entry.extended < 1000 * extendEvery(entry.handoff)) continue;
      entry.extended = performance.now();
      entry.handoff.extend().catch((error: unknown) =>
        console.error(`handoff: ${entry.handoff.id} could not be extended: ${String(error)}`));
    }
  }
}

function extendEvery(handoff: Received): number {
  const lease = handoff.headers["handoff-lease-seconds"];
  if (lease !== undefined) return Math.max(1, Number(lease) / 3);
  return handoff.answersByApi || handoff.deferred ? EXTEND_SECONDS : Infinity;
}

/** Agents that are receiving. */
export class Serving {
  /** Settles when the agents were stopped; rejects if one can no longer receive. */
  readonly ended: Promise<void>;
  private readonly workers: Worker[] = [];
  private readonly sources: (Inbox | Stream | PushServer)[] = [];
  private stopped?: Promise<void>;
  private end!: () => void;
  private fail!: (error: unknown) => void;

  private constructor() {
    this.ended = new Promise((resolve, reject) => {
      this.end = resolve;
      this.fail = reject;
    });
    this.ended.catch(() => undefined); // reported to those who wait for it
  }

  static async start(agents: Agent[], spine: MemorySpine): Promise<Serving> {
    const serving = new Serving();
    try {
      for (const each of agents) {
        const worker = new Worker(each, spine);
        serving.workers.push(worker);
        serving.sources.push(await source(worker, serving.fail));
      }
    } catch (error) {
      await serving.stop();
      throw error;
    }
    return serving;
  }

  /** Where the agents listen that are pushed to. */
  get urls(): string[] {
    return this.sources.flatMap((source) => (source instanceof PushServer ? [source.url] : []));
  }

  /**
   * The agents take no more handoffs, and finish what they have begun. Resolves when that is answered. Called by an agent's
   * function it resolves at once: what that works on is answered when it returns.
   */
  async stop(): Promise<void> {
    this.stopped ??= this.finish();
    this.stopped.catch(this.fail);
    const call = inside.getStore();
    if (!call || call.returned || !this.workers.includes(call.worker)) await this.stopped;
  }

  private async finish(): Promise<void> {
    await Promise.all(this.sources.map((source) => source.stop()));
    await Promise.all(this.workers.map((worker) => worker.close()));
    this.end();
  }
}

async function source(worker: Worker, fail: (error: unknown) => void): Promise<Inbox | Stream | PushServer> {
  if (worker.agent.receive === "inbox") return new Inbox(worker, fail);
  if (worker.agent.receive === "stream") return new Stream(worker, fail);
  return PushServer.start(worker);
}

/** Starts the agents and returns. */
export async function serving(agents: Agent[], options: { spine?: MemorySpine } = {}): Promise<Serving> {
  return Serving.start(agents, options.spine ?? new MemorySpine());
}

/** Runs the agents until the process gets SIGINT or SIGTERM; then they finish what they have begun. */
export async function serve(agents: Agent[], options: { spine?: MemorySpine } = {}): Promise<void> {
  const running = await serving(agents, options);
  const stop = () => void running.stop();
  process.once("SIGINT", stop).once("SIGTERM", stop);
  try {
    await running.ended;
  } finally {
    process.off("SIGINT", stop).off("SIGTERM", stop);
    await running.stop();
  }
}

