// SPDX-License-Identifier: Apache-2.0
//
// What can go wrong, as errors. The sidecar explains an error in a problem document (RFC 9457): `code` never changes and
// is for programs; `field`, `seen`, `allowed` and `needed` say what to correct; `handoff` is set if the handoff was
// accepted in spite of the error.
import type { Handoff, Json } from "./documents.js";

export interface Problem {
  code?: string;
  detail?: string;
  field?: string;
  seen?: Json;
  allowed?: Json;
  needed?: number;
  handoff?: Handoff;
  warnings?: Json[];
}

/** A call failed, or a handoff did not reach its receiver. */
export class HandoffError extends Error {
  readonly code: string;
  readonly detail: string;
  readonly field?: string;
  readonly seen?: Json;
  readonly allowed?: Json;
  readonly needed?: number;
  readonly handoff?: Handoff;

  constructor(readonly problem: Problem, readonly status = 0, readonly retryAfter?: number, cause?: unknown) {
    super(text(problem), { cause });
    this.name = new.target.name;
    this.code = problem.code ?? "";
    this.detail = problem.detail ?? "";
    this.field = problem.field;
    this.seen = problem.seen;
    this.allowed = problem.allowed;
    this.needed = problem.needed;
    this.handoff = problem.handoff;
  }
}

/** The request has to be corrected first. */
export class InvalidRequestError extends HandoffError {}
/** The token is missing or unknown. */
export class AuthenticationError extends HandoffError {}
/** The token does not allow this. */
export class PermissionDeniedError extends HandoffError {}
/** There is no such agent, handoff, task, channel or memory, or it was removed. */
export class NotFoundError extends HandoffError {}
/** Something else was decided before, or the idempotency key belongs to a different request. */
export class ConflictError extends HandoffError {}
/** The handoff was accepted and did not reach its receiver: it is parked, expired or discarded. */
export class NotDeliveredError extends HandoffError {}
/** The sidecar cannot do it now; a repeat can succeed. */
export class UnavailableError extends HandoffError {}
/** The target's circuit is open: recent handoffs to it failed. Nothing was stored. */
export class CircuitOpenError extends UnavailableError {}
/** There is no answer from the sidecar, or its certificate cannot be trusted (`code` is bad_certificate). */
export class UnreachableError extends UnavailableError {}
/** The receiver did not acknowledge in time. The delivery continues. */
export class HandoffTimeoutError extends HandoffError {}

/** Thrown by a receiving agent: no retry will help, so the handoff is parked for a person. */
export class Refused extends Error {
  override readonly name = "Refused";
}

type Kind = new (problem: Problem, status?: number, retryAfter?: number) => HandoffError;

const BY_STATUS: Record<number, Kind> = {
  401: AuthenticationError, 403: PermissionDeniedError, 404: NotFoundError, 409: ConflictError, 410: NotFoundError,
  429: UnavailableError, 502: NotDeliveredError, 503: UnavailableError, 504: NotDeliveredError,
};

/** The error for an answer of 400 and above. */
export function errorOf(status: number, body: string, retryAfter?: number): HandoffError {
  const problem = problemOf(body);
  const detail = problem.detail ?? `HTTP status ${status}`;
  return new (kindOf(status, problem))({ ...problem, detail }, status, retryAfter);
}

function kindOf(status: number, problem: Problem): Kind {
  if (problem.code === "circuit_open") return CircuitOpenError;
  if (problem.code === "hop_limit" && problem.handoff) return NotDeliveredError;
  if (!problem.code && status >= 500) return UnavailableError; // not the sidecar: something on the way to it
  return BY_STATUS[status] ?? (status < 500 ? InvalidRequestError : UnavailableError);
}

function problemOf(body: string): Problem {
  try {
    const found: unknown = JSON.parse(body);
    return typeof found === "object" && found !== null ? (found as Problem) : {};
  } catch {
    return {};
  }
}

function text(problem: Problem): string {
  const notes = (["field", "seen", "allowed", "needed"] as const)
    .filter((name) => problem[name] !== undefined && problem[name] !== null)
    .filter((name) => !problem.detail?.includes(short(problem[name] as Json))) // the sidecar's words usually have them
    .map((name) => `${name}: ${short(problem[name] as Json)}`);
  const head = problem.code ? `${problem.code}: ${problem.detail ?? ""}` : problem.detail ?? "";
  return notes.length > 0 ? `${head} (${notes.join("; ")})` : head;
}

function short(value: Json): string {
  const found = typeof value === "string" ? value : JSON.stringify(value);
  return found.length > 200 ? `${found.slice(0, 200)}...` : found;
}
