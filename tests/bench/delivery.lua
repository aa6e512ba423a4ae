-- SPDX-License-Identifier: Apache-2.0
-- What wrk sends and how it tells what it measured; see load.py.
--
--   wrk ... -s delivery.lua URL -- BODIES [PAUSE_MS [WAIT_S]]
--
-- BODIES has one JSON document in a line; they are sent in turn. PAUSE_MS: how long a connection
-- rests before a request, on the average, for a load below what the server can take. The pauses are
-- drawn, so that the connections do not march in step. WAIT_S: answered within this time when it is settled.
--
-- Each request is the first handoff of a new task: one that is known would be continued.

local requests, at = {}, 0
local task = os.time() % 100000 * 10000000

function init(args)
   wrk.method = "POST"
   wrk.headers["Content-Type"] = "application/json"
   local wait = tonumber(args[3] or 0)
   if wait > 0 then
      wrk.headers["Prefer"] = string.format("wait=%d", wait)
   end
   for line in io.lines(args[1]) do
      requests[#requests + 1] = wrk.format(nil, nil, nil, line)
   end
   local pause = tonumber(args[2] or 0)
   if pause > 0 then
      function delay() -- luacheck: ignore, wrk looks for it
         return math.random(0, 2 * pause)
      end
   end
end

function request()
   at = at % #requests + 1
   task = task + 1
   return (requests[at]:gsub("task%-000000000000", string.format("task-%012.0f", task), 1))
end

function done(summary, latency)
   local errors = summary.errors
   io.write(string.format(
      '\n{"requests": %d, "microseconds": %d, "p50_us": %d, "p99_us": %d, "errors": %d}\n',
      summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
      errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
