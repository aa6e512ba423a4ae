// SPDX-License-Identifier: Apache-2.0
//
// HTTP over connections that stay open. A connection that the sidecar closed while it was idle is noticed only when the next
// request fails on it; such a request is sent again at once, without counting as a failure.
import { once } from "node:events";
import http from "node:http";
import https from "node:https";
import { text } from "node:stream/consumers";
import type { TLSSocket } from "node:tls";
import { UnreachableError } from "./errors.js";

export interface TransportRequest {
  method: string;
  path: string;
  body?: string;
  headers: Record<string, string>;
  /** Milliseconds until there must be an answer. */
  timeout: number;
  signal?: AbortSignal;
}

export interface TransportResponse {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** An answer that is read while it comes. It has a body only if it is an error. */
export interface Following {
  status: number;
  headers: Record<string, string>;
  body?: string;
  /** Throws UnreachableError when the connection breaks. */
  chunks: AsyncIterable<Buffer>;
  /** Ends our side, which the sidecar answers by ending its own. What is on its way still arrives. */
  leave(): void;
}

/** Certificates, as node:https takes them. */
export type Tls = Pick<https.AgentOptions, "ca" | "cert" | "key" | "servername">;

const CONNECT_MS = 5000;
const CHECK_MS = 500;

export class Transport {
  private readonly options: http.RequestOptions;
  private readonly prefix: string;
  private readonly agent: http.Agent;
  private readonly secure: boolean;
  private readonly deadlines = new Deadlines();
  private closed = false;

  constructor(readonly endpoint: string, tls: Tls = {}) {
    const at = address(endpoint);
    this.secure = at.secure;
    this.options = at.options;
    this.prefix = at.prefix;
    const keep = { keepAlive: true, maxSockets: Infinity };
    this.agent = this.secure ? new https.Agent({ ...keep, ...tls }) : new http.Agent(keep);
  }

  async exchange(request: TransportRequest): Promise<TransportResponse> {
    const { method, headers, body, signal } = request;
    if (body !== undefined) headers["Content-Length"] = String(Buffer.byteLength(body));
    const options = { ...this.options, agent: this.agent, method, path: this.prefix + request.path, headers, signal };
    const deadline = performance.now() + request.timeout;
    for (;;) {
      if (this.closed) throw wasClosed(this.endpoint);
      const attempt = new Attempt(this.secure ? https : http, options, body, deadline);
      this.deadlines.add(attempt);
      try {
        return await attempt.response;
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        if (this.closed) throw wasClosed(this.endpoint);
        if (!attempt.wasStale) throw attempt.unreachable(this.endpoint, error);
      } finally {
        this.deadlines.delete(attempt);
      }
    }
  }

  /** An answer without an end. `timeout` is how long it may be silent. */
  async follow(sent: TransportRequest): Promise<Following> {
    const { method, path, headers, signal, timeout } = sent;
    const request = (this.secure ? https : http).request({ ...this.options, agent: this.agent, method, headers, signal,
      path: this.prefix + path });
    request.setTimeout(timeout, () => request.destroy(new Error("no answer in time")));
    request.on("error", () => undefined); // whoever waits for the answer has it, too
    request.end();
    try {
      const [response] = (await once(request, "response")) as [http.IncomingMessage];
      const status = response.statusCode ?? 0;
      return { status, headers: plainHeaders(response.headers), chunks: this.chunks(response),
        ...(status >= 400 && { body: await text(response) }), leave: () => void response.socket.end() };
    } catch (error) {
      throw unreachable(this.endpoint, error, request);
    }
  }

  private async *chunks(response: http.IncomingMessage): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of response) yield chunk as Buffer;
    } catch (error) {
      throw unreachable(this.endpoint, error);
    }
  }

  /** Closes all connections; requests in progress fail, and so do later ones. */
  close(): void {
    this.closed = true;
    this.agent.destroy();
  }
}

/** One request over one connection. */
class Attempt {
  readonly response: Promise<TransportResponse>;
  timer?: NodeJS.Timeout;
  wasStale = false;
  private request!: http.ClientRequest;
  private late = false;

  constructor(module: typeof http | typeof https, options: http.RequestOptions, body: string | undefined,
              readonly deadline: number) {
    this.response = new Promise((resolve, reject) => {
      const fail = (error: Error) => {
        this.wasStale = this.request.reusedSocket && !this.late && (error as NodeJS.ErrnoException).code === "ECONNRESET";
        reject(error);
      };
      this.request = module.request(options, (response) => collect(response, resolve, fail));
      if (!this.request.reusedSocket) this.limitConnecting();
      this.request.on("error", fail);
      this.request.end(body);
    });
  }

  private limitConnecting(): void {
    this.request.once("socket", (socket) => {
      if (!socket.connecting) return;
      const timer = setTimeout(() => this.expire("connecting takes too long"), CONNECT_MS);
      socket.once("connect", () => clearTimeout(timer));
      socket.once("close", () => clearTimeout(timer));
    });
  }

  unreachable(endpoint: string, cause: unknown): UnreachableError {
    return unreachable(endpoint, cause, this.request);
  }

  expire(detail: string): void {
    this.late = true;
    this.request.destroy(new Error(detail));
  }
}

/**
 * Ends attempts that take too long. One timer for all of them, since a timer for each costs more than what it watches; only
 * one that has little time left gets its own.
 */
class Deadlines {
  private readonly watched = new Set<Attempt>();
  private timer?: NodeJS.Timeout;

  add(attempt: Attempt): void {
    this.watched.add(attempt);
    this.watch(attempt);
    this.timer ??= setInterval(() => this.check(), CHECK_MS).unref(); // the connection keeps the process
  }

  delete(attempt: Attempt): void {
    this.watched.delete(attempt);
    clearTimeout(attempt.timer);
  }

  private watch(attempt: Attempt): void {
    const left = attempt.deadline - performance.now();
    if (left > CHECK_MS) return;
    attempt.timer ??= setTimeout(() => attempt.expire("no answer in time"), Math.max(0, left)).unref();
  }

  private check(): void {
    for (const attempt of this.watched) this.watch(attempt);
    if (this.watched.size > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }
}

function collect(response: http.IncomingMessage, resolve: (response: TransportResponse) => void,
                 fail: (error: Error) => void): void {
  const chunks: Buffer[] = [];
  response.on("data", (chunk: Buffer) => chunks.push(chunk));
  response.on("error", fail);
  response.on("end", () => resolve({
    status: response.statusCode ?? 0,
    get headers() { return plainHeaders(response.headers); }, // node makes them when they are read, which few calls do
    body: (chunks.length === 1 ? chunks[0] as Buffer : Buffer.concat(chunks)).toString("utf8"),
  }));
}

export function plainHeaders(headers: http.IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}

function address(endpoint: string): { secure: boolean; options: http.RequestOptions; prefix: string } {
  if (endpoint.startsWith("unix:")) {
    return { secure: false, options: { socketPath: endpoint.slice("unix:".length) }, prefix: "" };
  }
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (!url || !["http:", "https:"].includes(url.protocol)) {
    throw new TypeError(`endpoint ${endpoint}: allowed are http://HOST:PORT, https://HOST:PORT and unix:PATH`);
  }
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const secure = url.protocol === "https:";
  return { secure, options: { host, port: url.port || (secure ? 443 : 80) }, prefix: url.pathname.replace(/\/$/, "") };
}

function wasClosed(endpoint: string): UnreachableError {
  return new UnreachableError({ code: "closed", detail: `${endpoint}: the client was closed` });
}

function unreachable(endpoint: string, cause: unknown, request?: http.ClientRequest): UnreachableError {
  const untrusted = (request?.socket as TLSSocket | null | undefined)?.authorizationError;
  const detail = cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code : String(cause);
  const code = untrusted ? "bad_certificate" : "unreachable";
  return new UnreachableError({ code, detail: `${endpoint}: ${detail}` }, 0, undefined, cause);
}
