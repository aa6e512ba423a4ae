// SPDX-License-Identifier: Apache-2.0
//
// A bearer token. One in a file is read again when the file changes. A file can be gone or empty for a moment while it is
// replaced; until it is there again, its last token stays.
import { readFileSync, statSync } from "node:fs";
import { AuthenticationError } from "./errors.js";

export class Token {
  private readonly file?: string;
  private state = ""; // of the file, when it was read
  private lost = false;

  constructor(private text = "", file?: string) {
    this.file = text ? undefined : file;
  }

  current(): string {
    if (this.file) {
      try {
        this.readAgain(this.file);
      } catch (error) {
        this.keep(this.file, error);
      }
    }
    return this.text;
  }

  private readAgain(path: string): void {
    const { mtimeNs, ino, size } = statSync(path, { bigint: true });
    const state = `${mtimeNs} ${ino} ${size}`;
    if (state !== this.state) {
      const text = readFileSync(path, "utf8").trim();
      if (!text) throw new Error("it is empty");
      Object.assign(this, { text, state });
    }
    this.lost = false;
  }

  private keep(path: string, error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    if (!this.text) throw new AuthenticationError({ code: "no_token", detail: `token file ${path}: ${reason}` }, 0, undefined, error);
    if (!this.lost) console.error(`handoff: token file ${path}: ${reason}; its last token is used`);
    this.lost = true;
  }
}
