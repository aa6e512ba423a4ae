// SPDX-License-Identifier: Apache-2.0
//
// A handoff as its receiver sees it: what to do, with what, and how to answer.
import type { MemorySpine } from "./client.js";
import { envelopeOf } from "./documents.js";
import type { Envelope, Handoff, Json, JsonObject, Memory, Missing, RequestFields } from "./documents.js";
import { HandoffError } from "./errors.js";
import type { Answer } from "./seen.js";

export type Settle = (handoff: Received, answer: Answer) => Promise<void>;

/** The memories of a handoff. What the envelope has no content of is fetched when it is first asked for. */
export class Memories {
  /** Ids of the memories that the envelope includes or refers to. */
  readonly ids: string[];
  private readonly given = new Map<string, Memory>();

  private readonly missing: Set<string>;

  constructor(private readonly handoff: string, envelope: Envelope, private readonly spine: MemorySpine) {
    this.missing = new Set(envelope.missing.map(({ id }) => id));
    for (const memory of envelope.context.memories ?? []) this.given.set(memory.id, memory);
    this.ids = [...new Set([...this.given.keys(), ...(envelope.context.references ?? []), ...envelope.memory_refs])];
  }

  /** Any id can be asked for, also a missing one, which is then fetched directly; undefined if there is no such memory. */
  async get(id: string): Promise<Memory | undefined> {
    const given = this.given.get(id);
    if (given?.content !== undefined) return given;
    if (this.missing.has(id)) {
      await this.recover([id]);
      return this.given.get(id);
    }
    try {
      const memory = await this.spine.getMemory(id);
      this.given.set(id, memory);
      return memory;
    } catch (error) {
      if (given?.summary !== undefined) return given; // degraded, but better than nothing
      if (error instanceof HandoffError && error.code === "not_found") return undefined;
      throw error;
    }
  }

  /** Fetches memories that the envelope lacks, by default all; returns the ids of those that are not available. */
  async recover(ids?: string[]): Promise<string[]> {
    const answer = await this.spine.recoverMemories(this.handoff, ids ? { ids } : { missing: true });
    for (const memory of answer.found) this.given.set(memory.id, memory);
    return answer.missing.map(({ id }) => id);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Memory> {
    for (const id of this.ids) {
      const memory = await this.get(id);
      if (memory) yield memory;
    }
  }
}

/** A handoff to work on. Returning from the agent's function acknowledges it. */
export class Received {
  readonly id: string;
  readonly attempt: number;
  readonly memories: Memories;
  readonly gaps: string[] = [];
  /** @internal As it is sent. */ successor?: JsonObject;
  /** @internal */ deferred?: Deferred;
  /** @internal */ answersByApi = false;
  /** @internal */ settle?: Settle;

  private constructor(readonly agent: string, readonly spine: MemorySpine, readonly headers: Record<string, string>,
                      private readonly body: string, readonly envelope: Envelope) {
    this.id = headers["handoff-id"] ?? envelope.id;
    this.attempt = Number(headers["handoff-attempt"] ?? 1);
    this.memories = new Memories(this.id, envelope, spine);
  }

  /** Fetches the envelope if this agent is sent another form (`format: markdown`, `accepts: ["1"]`). */
  static async from(agent: string, spine: MemorySpine, headers: Record<string, string>, body: string | object):
      Promise<Received> {
    const envelope = envelopeIn(typeof body === "string" ? parsed(body) : body);
    return new Received(agent, spine, headers, typeof body === "string" ? body : "",
      envelope ?? await spine.getEnvelope(headers["handoff-id"] ?? ""));
  }

  /** Its W3C Trace Context, which the work continues: from the request of a push, else from the envelope. */
  get trace(): { traceparent?: string; tracestate?: string } {
    const { traceparent, tracestate } = this.headers;
    return traceparent ? { traceparent, tracestate } : this.envelope.trace ?? {};
  }

  get task(): { summary: string; intent: string; state: JsonObject; decisions: Json[]; unresolved: Json[];
                remaining: Json[] } {
    const { summary, intent, state = {} } = this.envelope.context.task;
    const { decisions = [], unresolved = [], remaining = [] } = state;
    return { summary, intent, state, decisions, unresolved, remaining };
  }

  get task_id(): string {
    return this.envelope.task_id;
  }

  get source_agent(): string {
    return this.envelope.source_agent;
  }

  /** What holds for the whole chain. */
  get constraints(): JsonObject {
    return this.envelope.context.constraints ?? {};
  }

  /** What the agents before did, and why. */
  get history(): JsonObject[] {
    return this.envelope.context.history ?? [];
  }

  get expected_output(): JsonObject {
    return this.envelope.context.expected_output ?? {};
  }

  /** Memories that were not available when the envelope was assembled. */
  get missing(): Missing[] {
    return this.envelope.missing;
  }

  /** Fetches the missing memories directly; returns the ids of those that are not available now either. */
  async stillMissing(): Promise<string[]> {
    return this.missing.length > 0 ? this.memories.recover() : [];
  }

  /** Says with the acknowledgement which memories this agent worked without: the sender and the task show them. */
  flagGaps(ids: string[]): void {
    this.gaps.push(...ids.filter((id) => !this.gaps.includes(id)));
  }

  /** How much the chain has that the token budget had no room for, by kind; ledger() has all of it. */
  get omitted(): Record<string, number> {
    const { more: _, ...counts } = this.envelope.omitted ?? { more: "" };
    return counts as Record<string, number>;
  }

  /** Everything that the agents of the chain have said. */
  async ledger(kind?: string): Promise<JsonObject[]> {
    return this.spine.getLedger(this.id, kind);
  }

  /** The handoff as Markdown, for a prompt. */
  async brief(): Promise<string> {
    return (this.headers["content-type"] ?? "").startsWith("text/markdown") ? this.body : this.spine.getBrief(this.id);
  }

  // ---- answering

  /** Reports progress, and gets more time. More time alone needs no call: it is extended while the function runs. */
  async extend(progress?: string): Promise<Handoff> {
    return this.spine.extendHandoff(this.id, progress);
  }

  /**
   * Hands the task on: the acknowledgement and its successor are one commit. The target is by default the next agent of
   * the pipeline.
   */
  next(task_summary: string, fields: RequestFields & { target_agent?: string } = {}): void {
    if (this.successor) throw new Error("a handoff has one successor; publish to a channel to hand it to several agents");
    const request = this.spine.request({ source_agent: this.agent, target_agent: "next", ...fields, task_summary });
    JSON.stringify(request); // a field that does not exist, or is no JSON, is reported here, not after the work
    this.successor = request;
  }

  /** Says that the answer comes later, by the object that this returns. Returning then acknowledges nothing. */
  defer(): Deferred {
    if (!this.settle) throw new Error("defer() needs serve(): only that can answer later");
    this.deferred ??= new Deferred(this, this.settle);
    return this.deferred;
  }
}

/** The answer to a handoff that comes later. Until then the time to answer is extended. */
export class Deferred {
  private answered = false;

  constructor(readonly handoff: Received, private readonly settle: Settle) {}

  /** Acknowledges, and hands on what handoff.next() said. */
  async acknowledge(): Promise<void> {
    await this.answer(acknowledgement(this.handoff));
  }

  async refuse(reason: string, retry = false): Promise<void> {
    await this.answer({ nack: this.handoff.id, reason, retry });
  }

  private async answer(answer: Answer): Promise<void> {
    if (this.answered) throw new Error(`handoff ${this.handoff.id} was answered before`);
    this.answered = true;
    await this.settle(this.handoff, answer);
  }
}

export function acknowledgement(handoff: Received): Answer {
  const { id, successor, gaps } = handoff;
  return { ack: id, ...(successor && { next: successor }), ...(gaps.length > 0 && { missing: gaps }) };
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

function envelopeIn(document: unknown): Envelope | undefined {
  const found = document as { envelope_version?: unknown } | null | undefined;
  return String(found?.envelope_version ?? "").startsWith("2.") ? envelopeOf(found as object) : undefined;
}
