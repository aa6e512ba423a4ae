// SPDX-License-Identifier: Apache-2.0
//
// mixin.libsonnet - the monitoring mixin: configuration, recording rules and alerts, in the form that
// mixin tools expect. Import it, override `_config+::`, and render what you need.
(import 'config.libsonnet') +
{
  local config = self._config,

  prometheusRules+:: {
    groups+: (import 'rules/recording.libsonnet')(config),
  },

  prometheusAlerts+:: {
    groups+: [
      (import 'rules/delivery.libsonnet')(config),
      (import 'rules/failure_rate.libsonnet')(config),
      (import 'rules/context.libsonnet')(config),
      (import 'rules/hops.libsonnet')(config),
      (import 'rules/sidecar.libsonnet')(config),
    ],
  },

  kubernetes+:: (import 'lib/kubernetes.libsonnet')(
    config, $.prometheusRules.groups + $.prometheusAlerts.groups
  ),
}
