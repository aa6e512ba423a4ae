#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// usage: node dashboards/generate.mjs [--runbooks URL] [FOLDER]
//
// Writes the dashboards as Grafana loads them, into dashboards/json or another folder. The modules in
// source/ define them; see README.md.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { agent } from './source/agent.mjs';
import { defaultRunbooks } from './source/config.mjs';
import { build } from './source/frame.mjs';
import { overview } from './source/overview.mjs';
import { sidecarDashboard } from './source/sidecar.mjs';
import { tasks } from './source/tasks.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const { values, positionals } = parseArgs({
    options: { runbooks: { type: 'string', default: defaultRunbooks } },
    allowPositionals: true,
});
const folder = positionals[0] ?? join(here, 'json');

mkdirSync(folder, { recursive: true });
for (const dashboard of [overview, agent, tasks, sidecarDashboard]) {
    const built = build({ ...dashboard, runbooks: values.runbooks });
    writeFileSync(join(folder, `${built.uid}.json`), `${JSON.stringify(built, null, 2)}\n`);
}
