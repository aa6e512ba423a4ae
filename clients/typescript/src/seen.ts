// SPDX-License-Identifier: Apache-2.0
//
// Which handoffs an agent has done, so that one that arrives again is answered again and not done again. A handoff that an
// agent acknowledged is remembered with its answer, before the answer is sent: if the answer is lost, the handoff arrives
// again, and so does its successor (`next`) with the second answer.
import { spawnSync } from "node:child_process";
import { appendFileSync, closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import type { JsonObject } from "./documents.js";

export type Answer = { ack: string; next?: JsonObject; missing?: string[] } | { nack: string; reason: string; retry: boolean };

/** A store of the caller's: a table in the database where the results are, for example. */
export interface Seen {
  /** The answer that was given for this handoff. */
  get(id: string): Answer | undefined | Promise<Answer | undefined>;
  /** Remembers the answer. It is durable when this returns. */
  add(id: string, answer: Answer): void | Promise<void>;
}

/**
 * A file with one JSON object on each line, for one process at a time. Remembers the last `most` handoffs. It survives a
 * crash of the process. A crash of the machine can lose the last entries.
 */
export class SeenFile implements Seen {
  private readonly guard: number;
  private readonly answers = new Map<string, string>();
  private lines = 0;
  private closed = false;

  constructor(readonly path: string, private readonly most = 10000) {
    mkdirSync(dirname(path), { recursive: true });
    this.guard = locked(path);
    this.load();
  }

  get(id: string): Answer | undefined {
    const kept = this.answers.get(id);
    return kept === undefined ? undefined : kept === "" ? { ack: id } : (JSON.parse(kept) as Answer);
  }

  add(id: string, answer: Answer): void {
    this.remember(id, answer);
    appendFileSync(this.path, `${JSON.stringify({ id, answer })}\n`);
    this.lines++;
    if (this.lines >= 2 * this.most) this.rewrite();
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    closeSync(this.guard);
  }

  private remember(id: string, answer: Answer): void {
    this.answers.delete(id);
    this.answers.set(id, "ack" in answer && Object.keys(answer).length === 1 ? "" : JSON.stringify(answer));
    if (this.answers.size > this.most) this.answers.delete(this.answers.keys().next().value as string);
  }

  private load(): void {
    if (!existsSync(this.path)) return;
    const text = readFileSync(this.path, "utf8");
    for (const line of text.split("\n")) {
      try {
        const entry = JSON.parse(line) as { id: string; answer: Answer };
        this.remember(entry.id, entry.answer);
      } catch {
        continue; // the end, or a line that a crash cut off
      }
    }
    if (text.endsWith("\n")) this.lines = this.answers.size;
    else this.rewrite();
  }

  private rewrite(): void {
    const lines = [...this.answers.keys()].map((id) => `${JSON.stringify({ id, answer: this.get(id) })}\n`);
    writeFileSync(`${this.path}.new`, lines.join(""));
    renameSync(`${this.path}.new`, this.path);
    this.lines = lines.length;
  }
}

const LOCKERS: [string, ...string[]][] = [
  ["flock", "-n", "3"], // of util-linux and BusyBox
  ["perl", "-e", "open(F, '>&=3') && flock(F, 6) or exit 1"], // of macOS
];

/**
 * Locks PATH.lock as the Python client does, and returns its descriptor. The lock ends with the process. Node.js has no
 * flock(), but a lock belongs to the open file, so a child that inherits the descriptor can take it.
 */
function locked(path: string): number {
  const guard = openSync(`${path}.lock`, "w");
  for (const [command, ...given] of LOCKERS) {
    const { error, status } = spawnSync(command, given, { stdio: ["ignore", "ignore", "ignore", guard] });
    if (error) continue;
    if (status === 0) return guard;
    closeSync(guard);
    throw new Error(`${path} is in use by another process: give each its own file (seen)`);
  }
  closeSync(guard);
  throw new Error(`${path} cannot be locked: neither flock nor perl can be run; install one, or pass a store (seen)`);
}

/** $HANDOFF_STATE_DIR, or the state folder of the user, with one file for each agent. */
export function defaultPath(agent: string): string {
  const state = process.env["XDG_STATE_HOME"] || join(homedir(), ".local", "state");
  return join(process.env["HANDOFF_STATE_DIR"] || join(state, "handoff"), `${agent}.seen`);
}
