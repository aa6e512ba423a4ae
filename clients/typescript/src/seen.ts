// SPDX-License-Identifier: Apache-2.0
//
// Which handoffs an agent has done, so that one that arrives again is answered again and not done again. A handoff that an
// agent acknowledged is remembered with its answer, before the answer is sent: if the answer is lost, the handoff arrives
// again, and so does its successor (`next`) with the second answer.
import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import type { HandoffRequest } from "./documents.js";

export type Answer = { ack: string; next?: HandoffRequest; missing?: string[] } | { nack: string; reason: string; retry: boolean };

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
  private static readonly open = new Set<string>();
  private readonly answers = new Map<string, string>();
  private lines = 0;

  constructor(readonly path: string, private readonly most = 10000) {
    mkdirSync(dirname(path), { recursive: true });
    this.lock();
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
    SeenFile.open.delete(this.path);
    rmSync(`${this.path}.lock`, { force: true });
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

  /** The lock file has the process id; one that a killed process left behind is taken over. */
  private lock(): void {
    const lock = `${this.path}.lock`;
    const owner = existsSync(lock) ? Number(readFileSync(lock, "utf8")) : 0;
    if (SeenFile.open.has(this.path) || (owner !== process.pid && isRunning(owner))) {
      throw new Error(`${this.path} is in use by another process: give each its own file (seen)`);
    }
    rmSync(lock, { force: true });
    writeFileSync(lock, String(process.pid), { flag: "wx" });
    SeenFile.open.add(this.path);
  }
}

/** $HANDOFF_STATE_DIR, or the state folder of the user, with one file for each agent. */
export function defaultPath(agent: string): string {
  const state = process.env["XDG_STATE_HOME"] || join(homedir(), ".local", "state");
  return join(process.env["HANDOFF_STATE_DIR"] || join(state, "handoff"), `${agent}.seen`);
}

function isRunning(pid: number): boolean {
  if (!(pid > 0)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
