// SPDX-License-Identifier: Apache-2.0
//
// What is sent and answered, as the API has it: docs/api.md and docs/envelope.md explain every field. Names of fields are
// those of the API in every language.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json | undefined };
export type JsonObject = { [name: string]: Json | undefined };

/** The fields of a handoff, beside its target and its summary. */
export interface RequestFields {
  source_agent?: string;
  task_id?: string;
  intent?: string;
  state?: JsonObject;
  memory_ids?: string[];
  include_recent?: number;
  include_pins?: boolean;
  constraints?: JsonObject;
  execution_history?: JsonObject[];
  expected_output?: JsonObject;
  strategy?: "priority" | "full" | "summary" | "lazy";
  previous_id?: string | string[];
  new_chain?: boolean;
  scope?: string | string[];
  pattern?: "direct" | "broadcast" | "choreographed";
  channel?: string;
  pipeline?: string;
  /** Fields that this version does not know. */
  extra?: JsonObject;
}

export interface HandoffRequest extends RequestFields {
  target_agent: string;
  task_summary: string;
}

/** A request without its target, for a channel. */
export interface PublishRequest extends RequestFields {
  task_summary: string;
}

export interface Completeness {
  requested: number;
  included: number;
  ratio: number;
}

export interface Missing {
  id: string;
  reason: string;
  detail?: string;
  since_hop?: number;
}

export interface Warning {
  field?: string;
  detail: string;
}

/** What an envelope and the status of a handoff have in common. */
interface Carried {
  id: string;
  envelope_version: string;
  task_id: string;
  source_agent: string;
  target_agent: string;
  token_count: number;
  memory_refs: string[];
  missing: Missing[];
  completeness: Completeness;
  warnings?: Warning[];
}

/** The status of a handoff. */
export interface Handoff extends Carried {
  state: "ready" | "in_flight" | "awaiting_ack" | "acknowledged" | "parked" | "expired" | "discarded";
  pattern: string;
  attempts: number;
  created_at: string;
  settled_at: string | null;
  reason: string;
  /** The handoff that took its place, if an operator edited it. */
  replaced_by?: string;
  progress?: string;
  progress_at?: string;
}

/** A stored fact. In an envelope, content or both texts can be absent. */
export interface Memory {
  id: string;
  content?: string;
  summary?: string;
  importance?: "low" | "medium" | "high" | "critical";
  tags?: string[];
  metadata?: JsonObject;
  pinned?: boolean;
  agent?: string | null;
  scope?: string;
  task_id?: string | null;
  created_at?: string;
  updated_at?: string;
}

export interface Task {
  summary: string;
  intent: string;
  state?: JsonObject & { decisions?: Json[]; unresolved?: Json[]; remaining?: Json[] };
}

/** The immutable document that carries a handoff. `token_count` is tokens.count. */
export interface Envelope extends Carried {
  digest: string;
  created_at: string;
  trace?: { traceparent?: string; tracestate?: string };
  context: {
    task: Task;
    memories?: Memory[];
    references?: string[];
    history?: JsonObject[];
    constraints?: JsonObject;
    expected_output?: JsonObject;
  };
  tokens: { budget: number; count: number; encoding: string; strategy: string };
  omitted?: { more: string } & Record<string, number | string>;
}

export interface Publication {
  id: string;
  channel: string;
  deliveries: { handoff_id: string; receiver: string; state: string }[];
  warnings?: Warning[];
}

/** An envelope as it came, with the names that the status of a handoff has. */
export function envelopeOf(document: object, warnings?: string): Envelope {
  const envelope = document as Envelope;
  Object.defineProperty(envelope, "token_count", { value: envelope.tokens?.count ?? 0, enumerable: false });
  if (warnings) Object.defineProperty(envelope, "warnings", { value: [{ detail: warnings }], enumerable: false });
  return envelope;
}
