# SPDX-License-Identifier: Apache-2.0
"""The configuration files of the demo's programs: the shipped ones, with the demo's addresses.

The files that compose.yaml mounts are next to this one; ./scripts/demo reads the same files and adapts them
to a single machine. demo/alertmanager.yml is alerts/alertmanager.yml with webhooks as receivers; `python3
demo/settings.py --write` regenerates it, and a test checks that it is current.
"""

import json
import pathlib
import re
import subprocess
import sys

import yaml

TOP = pathlib.Path(__file__).resolve().parents[1]
ALERTS = TOP / "alerts"
OVERLAY = TOP / "tests/alerts/sixty_times_faster.jsonnet"
SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
HEAD = """# SPDX-License-Identifier: Apache-2.0
# alerts/alertmanager.yml with the demo's pager as the receiver of everything; written by
# demo/settings.py --write.
"""


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def dump(value):
    return yaml.safe_dump(value, sort_keys=False, width=110)


def exporter(ports, pace):
    """demo/handoff-exporter.yml with the agents on this machine; ports: {agent: port}."""
    config = read(TOP / "demo/handoff-exporter.yml")
    for name, port in ports.items():
        config["agents"][name]["url"] = f"http://127.0.0.1:{port}/handoffs"
    config["defaults"] = {**config["defaults"], "retries": pace.retries, "backoff": pace.backoff,
                          "breaker": {**config["defaults"]["breaker"], "cooldown": pace.cooldown}}
    return dump(config)


def prometheus(pace, rules, exporter_address, alertmanager_address):
    """demo/prometheus.yml with the addresses of this machine."""
    config = read(TOP / "demo/prometheus.yml")
    config["global"] = {**config["global"], "scrape_interval": pace.scrape, "scrape_timeout": pace.scrape,
                        "evaluation_interval": pace.scrape}
    config["rule_files"] = [str(path) for path in rules]
    config["scrape_configs"][0]["static_configs"] = [{"targets": [exporter_address]}]
    config["alerting"]["alertmanagers"][0]["static_configs"] = [{"targets": [alertmanager_address]}]
    return dump(config)


def shortened(value, factor):
    """A copy with every *_wait and *_interval divided by the factor."""
    if isinstance(value, list):
        return [shortened(item, factor) for item in value]
    if not isinstance(value, dict):
        return value
    short = {}
    for key, inner in value.items():
        if key.endswith(("_wait", "_interval")):
            number, unit = re.fullmatch(r"(\d+)([a-z]+)", inner).groups()
            short[key] = f"{round(1000 * int(number) * SECONDS[unit] / factor)}ms"
        else:
            short[key] = shortened(inner, factor)
    return short


def alertmanager(pager, faster=1):
    """The shipped routes and inhibitions, with the pager at that URL as the receiver."""
    config = read(ALERTS / "alertmanager.yml")
    if faster != 1:
        config["route"] = shortened(config["route"], faster)
    config["receivers"] = [{"name": receiver["name"]} if len(receiver) == 1 else
                           {"name": receiver["name"],
                            "webhook_configs": [{"url": f"{pager}/{receiver['name']}",
                                                 "send_resolved": receiver["name"] != "heartbeat"}]}
                           for receiver in config["receivers"]]
    return dump(config)


def rules(pace, folder):
    """The rule files: the shipped ones, or those rendered with the overlay."""
    if pace.name != "fast":
        return [ALERTS / "handoff-rules.yml", ALERTS / "handoff-alerts.yml"]
    # without alerts/render, which is slower because it also renders the Kubernetes files
    code = f"local mixin = import {json.dumps(str(OVERLAY))}; " \
           "{groups: mixin.prometheusRules.groups + mixin.prometheusAlerts.groups}"
    path = folder / "rules.yml"
    with path.open("wb") as file:   # JSON is YAML
        subprocess.run(["jsonnet", "-e", code], check=True, stdout=file)
    return [path]


def compose_alertmanager():
    return HEAD + alertmanager("http://pager:9099")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    (TOP / "demo/alertmanager.yml").write_text(compose_alertmanager(), encoding="utf-8")
