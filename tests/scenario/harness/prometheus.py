# SPDX-License-Identifier: Apache-2.0
"""The real Prometheus, on a port that the system picks, and a client of its API.

    with Prometheus({"handoff": daemon.web.address}) as prometheus:
        prometheus.wait_for('up{job="handoff"} == 1')
        self.assertEqual(prometheus.value("handoff_exporter_build_info"), 1)
"""

import collections
import json
import time
import urllib.parse

from .server import Server
from .wait import TIMEOUT, eventually

PROGRAM = "/usr/bin/prometheus"

# What a query finds. A value is a float, or a NativeHistogram.
Series = collections.namedtuple("Series", "labels value")
# All samples of one series: [(time, value), ...]
Samples = collections.namedtuple("Samples", "labels samples")
Exemplar = collections.namedtuple("Exemplar", "series labels value time")


class NativeHistogram:
    """count, sum, and the populated buckets as [(lower, upper, count), ...]"""

    def __init__(self, data):
        self.count = float(data["count"])
        self.sum = float(data["sum"])
        self.buckets = [(float(lower), float(upper), float(count))
                        for _, lower, upper, count in data.get("buckets", [])]

    def __repr__(self):
        return f"<NativeHistogram count={self.count:g} sum={self.sum:g} {self.buckets}>"


def value_of(row):
    """The value of a row of an instant vector."""
    if "value" in row:
        return float(row["value"][1])
    return NativeHistogram(row["histogram"][1])


class Prometheus(Server):
    """A running Prometheus; a context manager that stops it and checks how it ended.

    scrape     {job: address, or list of addresses}
    features   of --enable-feature, such as "native-histograms" and "exemplar-storage"
    interval   between two scrapes and two evaluations of rules, and the time-out of a scrape
    config     more of its configuration (rule_files, alerting ...), as a dict
    options    more options, as on the command line
    """

    NAME = "Prometheus"

    def __init__(self, scrape, features=(), interval="1s", config=None, options=()):
        super().__init__()
        self.write_config(scrape, interval, config or {})
        command = [PROGRAM, f"--config.file={self.config_path}",
                   f"--storage.tsdb.path={self.folder / 'data'}",
                   "--web.listen-address=127.0.0.1:0", *options]
        if features:
            command.append(f"--enable-feature={','.join(features)}")
        self.launch(*command)

    # ---- starting and ending

    @property
    def config_path(self):
        return self.folder / "prometheus.yml"

    def write_config(self, scrape, interval, more):
        jobs = [{"job_name": job,
                 "static_configs": [{"targets": [where] if isinstance(where, str) else where}]}
                for job, where in scrape.items()]
        self.ntargets = sum(len(job["static_configs"][0]["targets"]) for job in jobs)
        config = {"global": {"scrape_interval": interval, "scrape_timeout": interval,
                             "evaluation_interval": interval},
                  "scrape_configs": jobs, **more}
        self.config_path.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML

    def __exit__(self, kind, value, traceback):
        log = self.log()
        code = self.stop()
        if kind is not None:
            print(f"---- log of Prometheus\n{log}----")
        elif code != 0:
            raise AssertionError(f"Prometheus ended with {code}:\n{log}")

    # ---- asking

    def api(self, path, **parameters):
        """The data of GET /api/v1/PATH. What Prometheus refuses is an AssertionError."""
        reply = self.http.get(path_with(f"/api/v1/{path}", parameters)).json()
        if reply["status"] != "success":
            raise AssertionError(f"{path} {parameters}: {reply['error']}")
        return reply["data"]

    def query(self, expression):
        """[Series, ...] of an instant vector."""
        data = self.api("query", query=expression)
        if data["resultType"] == "scalar":
            return [Series({}, float(data["result"][1]))]
        return [Series(row["metric"], value_of(row)) for row in data["result"]]

    def value(self, expression):
        """The value of the only series that the expression finds."""
        found = self.query(expression)
        if len(found) != 1:
            raise AssertionError(f"{expression} finds {len(found)} series, not one: {found}")
        return found[0].value

    def values(self, expression, label):
        """{value of a label: value of the series}; that label must tell the series apart."""
        found = {}
        for labels, value in self.query(expression):
            key = labels.get(label)
            if key in found:
                raise AssertionError(f"{expression}: {label}={key!r} has several series")
            found[key] = value
        return found

    def samples(self, selector, window="1h"):
        """[Samples, ...]: each sample as it was scraped, not as a query would look back."""
        rows = self.api("query", query=f"{selector}[{window}]")["result"]
        return [Samples(row["metric"],
                        [(at, float(value)) for at, value in row.get("values", [])] +
                        [(at, NativeHistogram(value)) for at, value in row.get("histograms", [])])
                for row in rows]

    def exemplars(self, selector, window=3600):
        """[Exemplar, ...] of the last and the next `window` seconds."""
        now = time.time()
        rows = self.api("query_exemplars", query=selector, start=now - window, end=now + window)
        return [Exemplar(row["seriesLabels"], found["labels"], float(found["value"]),
                         found["timestamp"])
                for row in rows for found in row["exemplars"]]

    def targets(self):
        """{job: [target, ...]} as /api/v1/targets tells them: health, lastError, scrapeUrl ..."""
        found = collections.defaultdict(list)
        for target in self.api("targets", state="active")["activeTargets"]:
            found[target["labels"]["job"]].append(target)
        return dict(found)

    def wait_for(self, expression, timeout=TIMEOUT):
        """What the expression finds, as soon as it finds something."""
        return eventually(lambda: self.query(expression), f"Prometheus finds {expression}",
                          timeout)

    def scraped(self, times=1, since=None):
        """Waits until every target was scraped that many times since then (None: from now on)."""
        since = time.time() if since is None else since

        def enough():
            counts = [sum(at > since for at, _ in one.samples) for one in self.samples("up")]
            return len(counts) == self.ntargets and min(counts) >= times
        eventually(enough, f"every target was scraped {times} times")


def path_with(path, parameters):
    return f"{path}?{urllib.parse.urlencode(parameters)}" if parameters else path
