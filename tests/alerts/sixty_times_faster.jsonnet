// SPDX-License-Identifier: Apache-2.0
//
// sixty_times_faster.jsonnet - the shipped rules with every minute turned into a second, for tests that
// run the whole chain and cannot wait for hours. Windows, pending times and ages shrink; shares, counts
// and expressions stay. Durations in seconds are real ones, such as the time-out of an attempt, and stay.
local digits = '0123456789';
local isDuration(value) =
  std.type(value) == 'string' && std.length(value) >= 2 &&
  std.member('mhd', value[std.length(value) - 1]) &&
  std.length([c for c in std.stringChars(value[:std.length(value) - 1]) if !std.member(digits, c)]) == 0;

local shorten(duration) =
  local last = std.length(duration) - 1;
  local number = std.parseInt(duration[:last]);
  if duration[last] == 'm' then '%ds' % number
  else if duration[last] == 'h' then '%dm' % number
  else '%dm' % (24 * number);

local faster(value) =
  if std.type(value) == 'object' then { [key]: faster(value[key]) for key in std.objectFields(value) }
  else if std.type(value) == 'array' then std.map(faster, value)
  else if isDuration(value) then shorten(value)
  else value;

(import '../../alerts/mixin.libsonnet') + { _config:: faster(super._config) }
