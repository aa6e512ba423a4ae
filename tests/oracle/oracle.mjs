// SPDX-License-Identifier: Apache-2.0
// The reference tokenizers behind the frames that tests/scenario/token_frames.c answers too.
//
//   node oracle.mjs tiktoken|js-tiktoken
//
// Request: u32 encoding (0 o200k_base, 1 cl100k_base), u32 length, that many bytes of text.
// Answer: u32 count, that many u32 ids. All little-endian.
import fs from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const ENCODINGS = ['o200k_base', 'cl100k_base'];
// Ill-formed bytes become U+FFFD, and a byte order mark is text like any other.
const decoder = new TextDecoder('utf-8', { fatal: false, ignoreBOM: true });

function encoders(library) {
  if (library === 'tiktoken') {
    const { get_encoding } = require('tiktoken');
    return ENCODINGS.map((name) => {
      const encoding = get_encoding(name);
      return (text) => encoding.encode_ordinary(text);
    });
  }
  const { getEncoding } = require('js-tiktoken');
  return ENCODINGS.map((name) => {
    const encoding = getEncoding(name);
    return (text) => encoding.encode(text, [], []);
  });
}

function read(length) {
  const buffer = Buffer.alloc(length);
  for (let done = 0; done < length; ) {
    const now = fs.readSync(0, buffer, done, length - done, null);
    if (now === 0) return null;
    done += now;
  }
  return buffer;
}

function write(buffer) {
  for (let done = 0; done < buffer.length; ) done += fs.writeSync(1, buffer, done);
}

const encode = encoders(process.argv[2]);
for (let head = read(8); head; head = read(8)) {
  const text = decoder.decode(read(head.readUInt32LE(4)));
  const ids = encode[head.readUInt32LE(0)](text);
  const answer = Buffer.alloc(4 + 4 * ids.length);
  answer.writeUInt32LE(ids.length, 0);
  for (let i = 0; i < ids.length; i++) answer.writeUInt32LE(ids[i], 4 + 4 * i);
  write(answer);
}
