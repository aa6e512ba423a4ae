// SPDX-License-Identifier: Apache-2.0
//
// kubernetes.libsonnet - the same rules as objects of the Prometheus operator, and the monitors that
// make it scrape the sidecars. A ServiceMonitor is for sidecars behind a service, a PodMonitor for sidecars
// inside the agents' pods; one of the two is enough.
function(config, groups) {
  local kubernetes = config.kubernetes,

  local object(kind, spec) = {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: kind,
    metadata: { name: kubernetes.name, namespace: kubernetes.namespace, labels: kubernetes.labels },
    spec: spec,
  },

  local endpoint = {
    port: kubernetes.port,
    path: '/metrics',
    interval: kubernetes.interval,
    // The operator would name the job after the service or the pod monitor; the rules expect a fixed name.
    relabelings: [{ action: 'replace', targetLabel: 'job', replacement: config.job }],
  },
  local selection = {
    selector: { matchLabels: kubernetes.matchLabels },
    namespaceSelector: { any: true },
  },

  prometheusRule: object('PrometheusRule', { groups: groups }),
  serviceMonitor: object('ServiceMonitor', selection { endpoints: [endpoint] }),
  podMonitor: object('PodMonitor', selection { podMetricsEndpoints: [endpoint] }),
}
