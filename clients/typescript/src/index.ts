// SPDX-License-Identifier: Apache-2.0
//
// Handoffs between agents, through a handoff-exporter sidecar.
//
//     import { MemorySpine, agent, serve } from "handoff";
export { Channel, MemorySpine } from "./client.js";
export type { Named, Retry, SendOptions, SpineOptions, WaitOptions } from "./client.js";
export type * from "./documents.js";
export { AuthenticationError, CircuitOpenError, ConflictError, HandoffError, HandoffTimeoutError, InvalidRequestError,
         NotDeliveredError, NotFoundError, PermissionDeniedError, Refused, UnavailableError, UnreachableError,
       } from "./errors.js";
export type { Problem } from "./errors.js";
export { agent, serve, serving } from "./receive.js";
export type { Agent, AgentFunction, AgentOptions, Serving } from "./receive.js";
export type { Deferred, Memories, Received } from "./received.js";
export { SeenFile } from "./seen.js";
export type { Answer, Seen } from "./seen.js";
