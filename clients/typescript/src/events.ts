// SPDX-License-Identifier: Apache-2.0
//
// Server-sent events, as the HTML standard defines them.
import { StringDecoder } from "node:string_decoder";

export interface Event {
  id?: string;
  /** Absent if only the id is new. */
  data?: string;
}

/** The events of an answer; undefined for a comment, which says that the connection is alive. What is cut off is no event. */
export async function* events(chunks: AsyncIterable<Buffer>): AsyncGenerator<Event | undefined> {
  let event: Event = {};
  for await (const line of lines(chunks)) {
    if (line.startsWith(":")) yield undefined;
    else if (line) add(event, line);
    else if (event.id !== undefined || event.data !== undefined) {
      yield event;
      event = {};
    }
  }
}

async function* lines(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  for await (const chunk of chunks) {
    const more = decoder.write(chunk);
    const ended = more.split("\n");
    if (ended.length === 1) {
      rest += more;
      continue;
    }
    ended[0] = rest + ended[0];
    rest = ended.pop() as string;
    for (const line of ended) yield line.endsWith("\r") ? line.slice(0, -1) : line;
  }
}

function add(event: Event, line: string): void {
  const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) as RegExpExecArray;
  if (name === "id") event.id = value;
  if (name === "data") event.data = event.data === undefined ? value : `${event.data}\n${value}`;
}
