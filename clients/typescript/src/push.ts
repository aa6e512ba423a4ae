// SPDX-License-Identifier: Apache-2.0
//
// A server that the sidecar posts handoffs to. If the work takes longer than `answer_within`, the answer is 202 and the
// acknowledgement follows over the API.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { Worker } from "./receive.js";
import { Received } from "./received.js";
import type { Answer } from "./seen.js";
import { plainHeaders } from "./transport.js";
import { Turns } from "./turns.js";

export class PushServer {
  private readonly server: Server;
  private readonly answering = new Set<Promise<void>>();
  private readonly working = new Set<Promise<unknown>>(); // also of those that were answered "later"
  private readonly turns: Turns;

  private constructor(private readonly worker: Worker) {
    this.turns = new Turns(worker.agent.concurrency);
    this.server = createServer((request, response) => {
      const answered = this.take(request, response).catch((error: unknown) => {
        console.error(`handoff: a push to ${worker.agent.name} failed:`, error);
        response.destroy(); // no answer: it is tried again
      }).finally(() => this.answering.delete(answered));
      this.answering.add(answered);
    });
  }

  static async start(worker: Worker): Promise<PushServer> {
    const push = new PushServer(worker);
    const url = new URL(worker.agent.receive);
    push.server.listen(Number(url.port || 80), url.hostname.replace(/^\[|\]$/g, ""));
    await once(push.server, "listening");
    return push;
  }

  get url(): string {
    const url = new URL(this.worker.agent.receive);
    return `http://${url.hostname}:${(this.server.address() as AddressInfo).port}${url.pathname}`;
  }

  /** Takes no new handoffs, and answers those that have arrived. */
  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeIdleConnections();
    while (this.answering.size > 0 || this.working.size > 0) await Promise.allSettled([...this.answering, ...this.working]);
    this.server.closeAllConnections();
    await closed;
  }

  private async take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const headers = plainHeaders(request.headers);
    if (request.method !== "POST" || !headers["handoff-id"]) {
      return reply(response, 400, { detail: "not a handoff: a POST with Handoff-Id is required" });
    }
    const { agent, spine } = this.worker;
    const handoff = await Received.from(agent.name, spine, headers, await text(request));
    const work = this.turns.run(() => this.worker.work(handoff));
    this.working.add(work);
    const done = work.finally(() => this.working.delete(work));
    done.catch((error: unknown) => console.error(`handoff: ${handoff.id} was not answered:`, error));
    const late = Symbol();
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<typeof late>((resolve) => {
      timer = setTimeout(() => resolve(late), 1000 * agent.answer_within);
    });
    const answer = await Promise.race([done, patience]);
    clearTimeout(timer);
    if (answer === late) {
      handoff.answersByApi = true; // the worker reads it when it has the answer
      return reply(response, 202);
    }
    await reply(response, answer ? 200 : 202, answer as Answer | undefined);
  }
}

/** Until it is written, or cannot be. */
async function reply(response: ServerResponse, status: number, body?: object): Promise<void> {
  response.writeHead(status, { "Content-Type": "application/json" });
  if (response.destroyed) return; // the other side has left
  const closed = once(response, "close");
  response.end(body && JSON.stringify(body));
  await closed;
}
