// SPDX-License-Identifier: Apache-2.0
//
// W3C Trace Context: a request continues the caller's trace, and a received handoff becomes the caller's trace.
// OpenTelemetry is used if it can be imported. Without it, what an agent sends while it works on a handoff continues the
// trace of that handoff.
import { AsyncLocalStorage } from "node:async_hooks";

type Carrier = Record<string, string>;

interface OpenTelemetry {
  context: { active(): unknown; with<T>(context: unknown, run: () => T): T };
  propagation: { inject(context: unknown, carrier: Carrier): void; extract(context: unknown, carrier: Carrier): unknown };
}

const received = new AsyncLocalStorage<Carrier>();
const name: string = "@opentelemetry/api"; // not a dependency, so the compiler must not look for it
const telemetry: OpenTelemetry | undefined = await import(name).catch(() => undefined);

/** Adds the headers that continue the current trace, if there is one. */
export function addTraceHeaders(headers: Carrier): void {
  const carrier: Carrier = {};
  telemetry?.propagation.inject(telemetry.context.active(), carrier);
  const current = carrier["traceparent"] ? only(carrier) : received.getStore();
  if (current) Object.assign(headers, current);
}

/** Runs the work on a handoff that came with these headers. */
export function continued<T>(headers: Record<string, string | undefined>, run: () => T): T {
  const carrier = only(headers);
  const inner = () => received.run(carrier, run);
  if (!telemetry || !carrier["traceparent"]) return inner();
  return telemetry.context.with(telemetry.propagation.extract(telemetry.context.active(), carrier), inner);
}

function only(headers: Record<string, string | undefined>): Carrier {
  const found: Carrier = {};
  for (const header of ["traceparent", "tracestate"]) {
    const value = headers[header];
    if (value) found[header] = value;
  }
  return found;
}
