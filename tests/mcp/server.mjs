// SPDX-License-Identifier: Apache-2.0
// usage: node server.mjs PORT FILE [events|json|both|stateless]
//
// A server with memory tools, made with the official SDKs. Memories are kept in FILE, so that they survive it.
//   events, json   SDK 1 with sessions, answering with event streams or with JSON
//   both           SDK 2: the protocol without sessions, and the older one without session ids
//   stateless      SDK 2: the protocol without sessions alone
// HANDOFF_MCP_WITHOUT names tools that it does not have. HANDOFF_MCP_TLS is a folder with ca.crt, server.crt and server.key:
// it speaks https, to clients with a certificate. Prints its port and, per request, a line of JSON.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';

import { toNodeHandler } from '@modelcontextprotocol/node';
import { McpServer as ServerOfSdk1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

const [port, file, mode = 'events'] = process.argv.slice(2);
const without = (process.env.HANDOFF_MCP_WITHOUT ?? '').split(',');
const memories = new Map(fs.existsSync(file) ? JSON.parse(fs.readFileSync(file)) : []);
const save = () => fs.writeFileSync(file, JSON.stringify([...memories]));
const newest = () => [...memories.values()].reverse();

const said = (value) => ({ content: [{ type: 'text', text: JSON.stringify(value) }] });
const structured = (value) => ({ ...said(value), structuredContent: value });
const failed = (text) => ({ isError: true, content: [{ type: 'text', text }] });

const tools = {
  fact_get: [{ key: z.string() }, ({ key }) => (memories.has(key) ? said({ fact: memories.get(key) }) : failed(`No such fact: ${key}`))],
  fact_get_many: [{ keys: z.array(z.string()) }, ({ keys }) => structured({ facts: keys.map((key) => memories.get(key)).filter(Boolean) })],
  fact_search: [{ text: z.string(), top: z.number() }, ({ text, top }) => {
    const words = new Set(text.split(' '));
    return structured({ facts: newest().filter((fact) => fact.text.split(' ').some((word) => words.has(word))).slice(0, top) });
  }],
  fact_recent: [{ top: z.number() }, ({ top }) => structured({ facts: newest().slice(0, top) })],
  fact_pinned: [{}, () => said(newest().filter((fact) => fact.pinned))],
  fact_put: [{ key: z.string(), fact: z.record(z.string(), z.any()) }, ({ key, fact }) => {
    if (fact.text.includes('forbidden')) return failed('this fact is forbidden');
    memories.set(key, { ...fact, id: key });
    save();
    return said('stored');
  }],
  fact_delete: [{ key: z.string() }, ({ key }) => {
    if (!memories.delete(key)) return failed('not found');
    save();
    return said('deleted');
  }],
  fact_fails: [{ key: z.string() }, () => { throw new Error('the database is away'); }],
};

function withTools(server, schema) {
  for (const [name, [inputs, handle]] of Object.entries(tools)) {
    if (!without.includes(name)) server.registerTool(name, { inputSchema: schema(inputs) }, handle);
  }
  return server;
}

const sessions = new Map();

async function withSessions(request, response, body) {
  let transport = sessions.get(request.headers['mcp-session-id']);
  if (!transport && request.headers['mcp-session-id']) {
    response.writeHead(404).end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } }));
    return;
  }
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: mode === 'json',
      onsessioninitialized: (id) => sessions.set(id, transport),
      onsessionclosed: (id) => sessions.delete(id),
    });
    await withTools(new ServerOfSdk1({ name: 'facts', version: '1' }), (inputs) => inputs).connect(transport);
  }
  await transport.handleRequest(request, response, body);
}

const handle = mode === 'events' || mode === 'json' ? withSessions : toNodeHandler(createMcpHandler(
  () => withTools(new McpServer({ name: 'facts', version: '2' }), (inputs) => z.object(inputs)),
  { legacy: mode === 'both' ? 'stateless' : 'reject' },
));

async function serve(request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : undefined;
  console.log(JSON.stringify({
    http: request.method, method: body?.method, name: body?.params?.name, arguments: body?.params?.arguments,
    session: request.headers['mcp-session-id'], version: request.headers['mcp-protocol-version'],
    authorization: request.headers.authorization, port: request.socket.remotePort,
  }));
  if (process.env.HANDOFF_MCP_TOKEN && request.headers.authorization !== `Bearer ${process.env.HANDOFF_MCP_TOKEN}`) {
    response.writeHead(401).end();
    return;
  }
  await handle(request, response, body);
}

const folder = process.env.HANDOFF_MCP_TLS;
const server = !folder ? http.createServer(serve) : https.createServer({
  ca: fs.readFileSync(`${folder}/ca.crt`), cert: fs.readFileSync(`${folder}/server.crt`), key: fs.readFileSync(`${folder}/server.key`),
  requestCert: true, rejectUnauthorized: true,
}, serve);
// A message from the test makes it forget its sessions.
process.on('SIGUSR2', () => sessions.clear());
server.listen(Number(port), '127.0.0.1', () => console.log(server.address().port));
