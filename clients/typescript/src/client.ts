// SPDX-License-Identifier: Apache-2.0
//
// MemorySpine: the agent API of a sidecar. Every call is safe to repeat: those that accept something carry an idempotency
// key, which stays the same for all repeats.
//
//     const spine = new MemorySpine({ endpoint: "http://127.0.0.1:8780", source_agent: "analyst" });
//     const handoff = await spine.handOff({ target_agent: "coder", task_summary: "Write the retry logic" });
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { envelopeOf } from "./documents.js";
import type { Envelope, Handoff, HandoffRequest, Json, JsonObject, Memory, Missing, Publication, PublishRequest,
              RequestFields } from "./documents.js";
import { CircuitOpenError, HandoffError, HandoffTimeoutError, UnavailableError, UnreachableError, errorOf } from "./errors.js";
import { Token } from "./token.js";
import { addTraceHeaders } from "./trace.js";
import { Transport, type Following, type Tls, type TransportResponse } from "./transport.js";

/** A handoff or an envelope, or its id. */
export type Named = string | { id: string };

/**
 * How calls that failed for a passing reason are repeated: exponential backoff with full jitter. `seconds` is how long a
 * call keeps trying, 0 for no retries. A Retry-After of the sidecar is the minimum wait.
 */
export interface Retry {
  seconds: number;
  base: number;
  most: number;
}

export interface SpineOptions {
  /** http://HOST:PORT, https://HOST:PORT or unix:PATH; default $HANDOFF_API_URL, then http://127.0.0.1:8780 */
  endpoint?: string;
  /** Who sends; default $HANDOFF_SOURCE_AGENT. Not needed if the token or `api.source_agent` says it. */
  source_agent?: string;
  /** A bearer token. */
  token?: string;
  /** A file with the token, read again when it changes; default $HANDOFF_TOKEN_FILE */
  token_file?: string;
  /** Certificates for https. */
  tls?: Tls;
  retry?: Partial<Retry>;
}

export interface WaitOptions {
  /** Seconds until HandoffTimeoutError; the delivery continues. */
  timeout?: number;
  /** false: return as soon as the handoff is durable */
  wait?: boolean;
  signal?: AbortSignal;
}

export interface SendOptions extends WaitOptions {
  idempotency_key?: string;
}

interface Call {
  members?: object;
  prefer?: string;
  headers?: Record<string, string>;
  /** Seconds that the sidecar may wait before it answers. */
  wait?: number;
  /** When it has to be over, with its retries, by performance.now(). */
  end?: number;
  signal?: AbortSignal;
}

export const limits = { wait_seconds: 30 }; // one request waits no longer; then it is repeated
const ANSWER_SECONDS = 30; // for an answer that waits for nothing else
const LENIENT = "handling=lenient"; // an older sidecar ignores fields that it does not know, and says so
const REQUEST_FIELDS = new Set(["source_agent", "target_agent", "task_id", "task_summary", "intent", "state", "scope",
  "include_recent", "include_pins", "memory_ids", "constraints", "execution_history", "expected_output", "strategy",
  "previous_id", "new_chain", "pattern", "channel", "pipeline", "extra"]);

const FINAL = new Set(["store_displaced", "closed", "bad_certificate"]); // until an operator, or the caller, acts

/** A sidecar, as an agent uses it. */
export class MemorySpine {
  readonly source_agent?: string;
  private readonly transport: Transport;
  private readonly retry: Retry;
  private token: Token; // shared by copies: each has the last one

  constructor(readonly options: SpineOptions = {}) {
    const endpoint = options.endpoint ?? process.env["HANDOFF_API_URL"] ?? "http://127.0.0.1:8780";
    this.source_agent = options.source_agent ?? process.env["HANDOFF_SOURCE_AGENT"];
    this.token = new Token(options.token, options.token_file ?? process.env["HANDOFF_TOKEN_FILE"]);
    this.retry = { seconds: 30, base: 0.1, most: 5, ...options.retry };
    this.transport = new Transport(endpoint, options.tls);
  }

  /** The same sidecar over connections of its own, for another agent or with another policy of retries. */
  copy(changes: Pick<SpineOptions, "source_agent" | "retry"> = {}): MemorySpine {
    const copy = new MemorySpine({ ...this.options, ...changes });
    copy.token = this.token;
    return copy;
  }

  /** Closes the connections; calls in progress fail. */
  close(): void {
    this.transport.close();
  }

  // ---- handing off

  /** Assembles the envelope of a handoff and delivers nothing; see deliverHandoff() and Channel.publish(). */
  async agentHandoff(request: HandoffRequest): Promise<Envelope> {
    const response = await this.send("POST", "/v1/envelopes", { members: this.request(request) });
    return envelopeOf(JSON.parse(response.body) as object, response.headers["handoff-warnings"]);
  }

  /**
   * Assembles and delivers a handoff, and waits until the receiver acknowledged it. Throws NotDeliveredError if it ended
   * otherwise.
   */
  async handOff(request: HandoffRequest, options: SendOptions = {}): Promise<Handoff> {
    const headers = { "Idempotency-Key": options.idempotency_key ?? randomUUID() };
    return this.delivered("/v1/handoffs", this.request(request), options, ending(options.timeout), headers);
  }

  /**
   * Delivers an assembled envelope and waits for the acknowledgement, as handOff() does. An envelope has one handoff: a
   * repeat waits for the same one. `target` is checked against the envelope.
   */
  async deliverHandoff(envelope: Named, options: WaitOptions & { target?: string } = {}): Promise<Handoff> {
    const { target, signal } = options;
    const end = ending(options.timeout);
    if (target !== undefined) {
      const { target_agent: addressed } = typeof envelope === "object" && "target_agent" in envelope ? envelope as Envelope :
        await this.json<Envelope>("GET", `/v1/envelopes/${segment(envelope)}`, { end, signal });
      if (addressed !== target) {
        throw new TypeError(`the envelope is addressed to ${addressed}, not to ${target}; envelopes are immutable: ` +
          `assemble one with target_agent ${target}`);
      }
    }
    return this.delivered(`/v1/envelopes/${segment(envelope)}/deliver`, {}, options, end);
  }

  /** Keeps an envelope, delivered or not, for a person to replay or discard. */
  async parkEnvelope(envelope: Named, reason: string): Promise<Handoff> {
    try {
      return await this.json("POST", `/v1/handoffs/${segment(envelope)}/park`, { members: { reason } });
    } catch (error) {
      if (!(error instanceof HandoffError && error.code === "not_found")) throw error;
      const members = { reason, envelope_id: idOf(envelope) };
      return this.json("POST", "/v1/parked", { members, headers: { "Idempotency-Key": `park-${idOf(envelope)}` } });
    }
  }

  getChannel(name: string): Channel {
    return new Channel(this, name);
  }

  async completeTask(task_id: string): Promise<JsonObject> {
    return this.json("POST", `/v1/tasks/${segment(task_id)}/complete`, { members: {} });
  }

  // ---- reading

  async getHandoff(handoff: Named): Promise<Handoff> {
    return this.json("GET", `/v1/handoffs/${segment(handoff)}`);
  }

  async getEnvelope(handoff: Named): Promise<Envelope> {
    return envelopeOf(await this.json<object>("GET", `/v1/envelopes/${segment(handoff)}`));
  }

  /** The envelope as Markdown, for a prompt. */
  async getBrief(handoff: Named): Promise<string> {
    const headers = { Accept: "text/markdown" };
    return (await this.send("GET", `/v1/envelopes/${segment(handoff)}`, { headers })).body;
  }

  /** Everything that the hops of its chain have said, also what the envelope had no room for. */
  async getLedger(envelope: Named, kind?: string): Promise<JsonObject[]> {
    return this.pages(`/v1/envelopes/${segment(envelope)}/ledger`, { kind });
  }

  /** The handoffs of a task, in order of acceptance. */
  async getTask(task_id: string): Promise<Handoff[]> {
    return this.pages(`/v1/tasks/${segment(task_id)}`);
  }

  async listHandoffs(query: { state?: string; source?: string; target?: string; task?: string; since?: string } = {},
                     limit?: number): Promise<Handoff[]> {
    return this.pages("/v1/handoffs", query, limit);
  }

  async listAttempts(handoff: Named): Promise<JsonObject[]> {
    return this.pages(`/v1/handoffs/${segment(handoff)}/attempts`);
  }

  async listAgents(): Promise<JsonObject[]> {
    return this.pages("/v1/agents");
  }

  // ---- acknowledging, for the agent that has the handoff

  /**
   * Acknowledges. `next` is a request, with which the task is handed on in the same commit; `missing` are memories that the
   * agent worked without.
   */
  async ackHandoff(handoff: Named, more: { next?: HandoffRequest; missing?: string[] } = {}): Promise<Handoff> {
    const { next, missing } = more;
    const members = { next: next && this.request(next), missing };
    return this.json("POST", `/v1/handoffs/${segment(handoff)}/ack`, { members });
  }

  /** Declines. The handoff is tried again, or parked if `retry` is false. */
  async nackHandoff(handoff: Named, reason = "", retry = true): Promise<Handoff> {
    return this.json("POST", `/v1/handoffs/${segment(handoff)}/nack`, { members: { reason: reason.slice(0, 1000), retry } });
  }

  /** Gets more time to acknowledge, and reports progress. */
  async extendHandoff(handoff: Named, progress?: string): Promise<Handoff> {
    return this.json("POST", `/v1/handoffs/${segment(handoff)}/extend`, { members: { progress } });
  }

  /**
   * Fetches memories directly, as they are now: those with these ids, or with `missing` all that the envelope lacks.
   */
  async recoverMemories(handoff: Named, what: { ids?: string[]; missing?: boolean }):
      Promise<{ found: Memory[]; missing: Missing[] }> {
    return this.json("POST", `/v1/handoffs/${segment(handoff)}/memories`, { members: what });
  }

  /** Says which memories the agent works without; its sender and the task show them. */
  async flagGaps(handoff: Named, missing: string[]): Promise<JsonObject> {
    return this.json("POST", `/v1/handoffs/${segment(handoff)}/gaps`, { members: { missing } });
  }

  /** The next handoff of an inbox, as it came, or undefined. serve() does this for you. */
  async pullHandoff(agent: string, wait = 20, signal?: AbortSignal): Promise<TransportResponse | undefined> {
    const response = await this.send("GET", `/v1/agents/${segment(agent)}/inbox?wait=${wait}s`, { wait, signal });
    return response.status === 200 ? response : undefined;
  }

  /** @internal The inbox as a stream of events, after the event `last`. It is not repeated as calls are. */
  async followInbox(agent: string, options: { leases: number; last?: string; timeout: number; signal: AbortSignal }):
      Promise<Following> {
    const { leases, last, timeout, signal } = options;
    const headers: Record<string, string> = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
    this.authorize(headers);
    const path = `/v1/agents/${segment(agent)}/inbox` + queryString({ leases: leases > 1 ? leases : undefined });
    const following = await this.transport.follow({ method: "GET", path, headers, timeout, signal });
    const { status, headers: answered, body = "" } = following;
    if (status >= 400) throw errorOf(status, body, retryAfter(answered));
    if (!(answered["content-type"] ?? "").startsWith("text/event-stream")) {
      following.leave();
      throw new HandoffError({ code: "not_a_stream", detail: "this sidecar has no streams; use receive: inbox" }, status);
    }
    return following;
  }

  async cancelHandoff(handoff: Named, reason = ""): Promise<Handoff> {
    return this.json("POST", `/v1/handoffs/${segment(handoff)}/cancel`, { members: { reason } });
  }

  // ---- memories

  /** Stores a memory; it replaces one with the same id. */
  async putMemory(id: string, content: string, more: Omit<Memory, "id" | "content" | "created_at" | "updated_at"> = {}):
      Promise<Memory> {
    return this.json("PUT", `/v1/memories/${segment(id)}`, { members: { content, ...more } });
  }

  async getMemory(id: string): Promise<Memory> {
    return this.json("GET", `/v1/memories/${segment(id)}`);
  }

  /** The memories that fit the text, the most relevant first. */
  async searchMemories(query: string, options: { limit?: number; scope?: string } = {}): Promise<Memory[]> {
    const limit = options.limit ?? 20;
    return this.pages("/v1/memories", { query, scope: options.scope, limit: Math.min(limit, 1000) }, limit);
  }

  async listMemories(options: { pinned?: boolean; scope?: string; limit?: number } = {}): Promise<Memory[]> {
    return this.pages("/v1/memories", { pinned: options.pinned, scope: options.scope }, options.limit);
  }

  async deleteMemory(id: string): Promise<void> {
    await this.send("DELETE", `/v1/memories/${segment(id)}`);
  }

  async pinMemory(id: string): Promise<Memory> {
    return this.json("PUT", `/v1/memories/${segment(id)}/pin`);
  }

  async unpinMemory(id: string): Promise<Memory> {
    return this.json("DELETE", `/v1/memories/${segment(id)}/pin`);
  }

  // ---- other

  /** Reports handoffs that agents made by other means, for the metrics. Each gets an id, so a repeat counts none twice. */
  async observe(observations: JsonObject[]): Promise<JsonObject> {
    const items = observations.map((observation) => ({ id: randomUUID(), ...observation }));
    return this.json("POST", "/v1/observations", { members: { items } });
  }

  /** Any other call of docs/api.md, with the same retries and errors. */
  async json<T = JsonObject>(method: string, path: string, call: Call = {}): Promise<T> {
    return JSON.parse((await this.send(method, path, call)).body) as T;
  }

  /** All items of a list, or the first `limit`. */
  async pages<T>(path: string, query: Record<string, Json | undefined> = {}, limit = Infinity): Promise<T[]> {
    const items: T[] = [];
    let cursor: string | null | undefined;
    do {
      const page = await this.json<{ items: T[]; next?: string | null }>("GET", path + queryString({ ...query, cursor }));
      items.push(...page.items);
      cursor = page.next;
    } while (cursor && items.length < limit);
    return items.slice(0, limit);
  }

  /** The members of a request: checked, because JavaScript does not, and with the sender. */
  request(fields: HandoffRequest | PublishRequest | (RequestFields & JsonObject)): JsonObject {
    const members: JsonObject = {};
    if (this.source_agent !== undefined) members["source_agent"] = this.source_agent;
    for (const [name, value] of Object.entries(fields)) {
      if (!REQUEST_FIELDS.has(name)) {
        throw new TypeError(`a handoff has no field ${name}; allowed: ${[...REQUEST_FIELDS].join(", ")}`);
      }
      if (name !== "extra") members[name] = value as Json;
    }
    return fields.extra ? Object.assign(members, fields.extra) : members;
  }

  private async delivered(path: string, members: object, options: WaitOptions, end: number,
                          headers: Record<string, string> = {}): Promise<Handoff> {
    const { timeout, wait = true, signal } = options;
    if (!wait) return this.json("POST", path, { members, prefer: "respond-async", headers, end, signal });
    const response = await this.settled(path, { members, headers, end, signal });
    const handoff = JSON.parse(response.body) as Handoff;
    if (response.status !== 202) return handoff;
    throw new HandoffTimeoutError({ code: "not_acknowledged_in_time", handoff,
      detail: `${handoff.target_agent} did not acknowledge ${handoff.id} within ${timeout} s; the delivery continues` });
  }

  /**
   * @internal A call that waits for the end of a handoff until `end`, in several requests under one key. The sidecar waits
   * whole seconds. The first answer has to arrive before `end`, since it says which handoff it is; the last wait may be cut off.
   */
  async settled(path: string, call: Call & { end: number }): Promise<TransportResponse> {
    let answered: TransportResponse | undefined;
    for (;;) {
      const left = Math.min(limits.wait_seconds, Math.max(0, call.end - performance.now()) / 1000);
      const wait = answered || left === limits.wait_seconds ? Math.ceil(left) : Math.max(0, Math.ceil(left) - 1);
      try {
        const response = await this.send("POST", path, { ...call, prefer: `wait=${wait}`, wait });
        if (response.status !== 202 || isOver(call.end)) return response;
        answered = response;
      } catch (error) {
        if (!answered || !isOver(call.end) || !(error instanceof UnreachableError)) throw error;
        return answered;
      }
    }
  }

  /** One call, with its retries. An answer of 400 or above is thrown. */
  private async send(method: string, path: string, call: Call = {}): Promise<TransportResponse> {
    const began = performance.now();
    const headers: Record<string, string> = { ...call.headers };
    const prefer = call.members ? (call.prefer ? `${call.prefer}, ${LENIENT}` : LENIENT) : call.prefer;
    if (prefer) headers["Prefer"] = prefer;
    if (call.members) {
      headers["Content-Type"] = "application/json";
      addTraceHeaders(headers);
    }
    const body = call.members && JSON.stringify(call.members);
    for (let failures = 0; ; failures++) {
      try {
        return await this.once(method, path, headers, body, call);
      } catch (error) {
        const now = performance.now();
        const wait = this.nextWait(error, failures, (now - began) / 1000);
        if (wait === undefined || now + 1000 * wait >= (call.end ?? Infinity)) throw error;
        await sleep(1000 * wait, undefined, { signal: call.signal }).catch(() => call.signal?.throwIfAborted());
      }
    }
  }

  private async once(method: string, path: string, headers: Record<string, string>, body: string | undefined,
                     call: Call): Promise<TransportResponse> {
    this.authorize(headers);
    const longest = 1000 * (ANSWER_SECONDS + (call.wait ?? 0));
    const timeout = Math.max(1, Math.min(longest, (call.end ?? Infinity) - performance.now()));
    const response = await this.transport.exchange({ method, path, headers, body, timeout, signal: call.signal });
    if (response.status < 400) return response;
    throw errorOf(response.status, response.body, retryAfter(response.headers));
  }

  private authorize(headers: Record<string, string>): void {
    const token = this.token.current();
    if (token) headers["Authorization"] = `Bearer ${token}`;
  }

  /** Seconds until the next try; undefined if there is none. */
  private nextWait(error: unknown, failures: number, elapsed: number): number | undefined {
    if (!isPassing(error)) return undefined;
    const { seconds, base, most } = this.retry;
    const wait = Math.max(error.retryAfter ?? 0, Math.random() * Math.min(most, base * 2 ** failures));
    return elapsed + wait < seconds ? wait : undefined;
  }
}

/** A channel: one envelope, and a separate handoff for each receiver. */
export class Channel {
  constructor(private readonly spine: MemorySpine, readonly name: string) {}

  /**
   * Publishes an assembled envelope, or a request. Returns once it is durable for all receivers; with `timeout`, when no
   * delivery is in progress, or after that many seconds.
   */
  async publish(options: {
    envelope?: Named; request?: PublishRequest; receivers?: string[]; delivery?: "at-least-once"; timeout?: number;
    idempotency_key?: string; signal?: AbortSignal;
  }): Promise<Publication> {
    const { envelope, request, receivers, delivery = "at-least-once", timeout, signal } = options;
    if (delivery !== "at-least-once") throw new TypeError(`delivery ${String(delivery)}: allowed is at-least-once`);
    if ((envelope === undefined) === (request === undefined)) {
      throw new TypeError("publish() takes an envelope or a request");
    }
    const what = request ? { request: this.spine.request(request) } : { envelope_id: idOf(envelope as Named) };
    const headers = { "Idempotency-Key": options.idempotency_key ?? randomUUID() };
    const call = { members: { ...what, receivers }, headers, signal };
    const path = `/v1/channels/${segment(this.name)}/publish`;
    if (timeout === undefined) return this.spine.json("POST", path, call);
    return JSON.parse((await this.spine.settled(path, { ...call, end: ending(timeout) })).body) as Publication;
  }

  /** Makes an agent a receiver, durably. It gets what is published from `since`: "now", "all" or an RFC 3339 time. */
  async subscribe(agent: string, since = "now"): Promise<JsonObject> {
    return this.spine.json("PUT", `/v1/channels/${segment(this.name)}/receivers/${segment(agent)}`, { members: { from: since } });
  }

  /** Lets an agent leave the channel. What is pending for it stays. */
  async unsubscribe(agent: string): Promise<JsonObject> {
    return this.spine.json("DELETE", `/v1/channels/${segment(this.name)}/receivers/${segment(agent)}`);
  }

  /** The state of each delivery. */
  async getPublication(publication: Named): Promise<Publication> {
    return this.spine.json("GET", `/v1/channels/${segment(this.name)}/publications/${segment(publication)}`);
  }
}

/** Whether the same call can succeed a little later. */
export function isPassing(error: unknown): error is HandoffError {
  if (!(error instanceof HandoffError)) return false;
  if (error instanceof CircuitOpenError || FINAL.has(error.code)) return false;
  return error instanceof UnavailableError || error.status === 408 || error.status === 425;
}

/** When a call that may take `timeout` seconds has to end, by performance.now(). */
function ending(timeout: number | undefined): number {
  if (timeout !== undefined && !(timeout > 0)) throw new TypeError(`timeout ${timeout}: allowed is more than 0 seconds`);
  return timeout === undefined ? Infinity : performance.now() + 1000 * timeout;
}

/** Whether what is left is too short for anything. */
function isOver(end: number): boolean {
  return performance.now() >= end - 10;
}

function retryAfter(headers: Record<string, string>): number | undefined {
  const after = headers["retry-after"];
  return after && /^\d+$/.test(after) ? Number(after) : undefined;
}

function idOf(named: Named): string {
  return typeof named === "string" ? named : named.id;
}

function segment(named: Named): string {
  return encodeURIComponent(idOf(named));
}

function queryString(query: Record<string, Json | undefined>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return given.length > 0 ? `?${given.join("&")}` : "";
}
