#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo on one machine: sidecar, five agents, Prometheus, Alertmanager, a pager, and a script.

    ./scripts/demo            until Ctrl-C, with the shipped alert rules
    ./scripts/demo --fast     two minutes, with windows sixty times shorter; exits with 0 if exactly the
                              announced alerts were sent, in order, and are resolved, else with 1
    --stay                    with --fast: continue until Ctrl-C

./scripts/demo builds the sidecar first; $HANDOFF_EXPORTER names another binary.
"""

import argparse
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import agents
import pager
import programs
import settings
import story

TOP = settings.TOP
PORTS = {"web": 9780, "api": 8780, "prometheus": 9090, "alertmanager": 9093}
FASTER = 60
STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


class Stopped(Exception):
    """Ctrl-C, or a signal that asks the demo to stop."""


def say(text=""):
    print(text, flush=True)


class Demo:
    def __init__(self, pace):
        self.pace = pace
        self.asked_to_stop = False
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="handoff-demo-"))
        self.programs = []
        self.pipeline = agents.Pipeline(pace)
        self.pager = pager.Pager(self.tell_call)
        self.ports = {name: programs.free_port(port) for name, port in PORTS.items()}

    def ask_to_stop(self, *_):
        """A signal arrived. It may arrive at any point, even while Python holds an internal lock, which an
        exception raised here could leave locked forever; so the next pause ends the demo."""
        self.asked_to_stop = True

    def pause(self, seconds):
        time.sleep(seconds)
        if self.asked_to_stop:
            raise Stopped

    # ---- the programs

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, name, command, ready, environment=None):
        program = programs.Program(name, command, self.folder, ready, environment)
        self.programs.append(program)
        while not program.is_ready():
            self.pause(0.05)

    def start_exporter(self):
        config = self.write("handoff-exporter.yml", settings.exporter(self.pipeline.listen(), self.pace))
        program = os.environ.get("HANDOFF_EXPORTER", TOP / "build/release/exporter/handoff-exporter")
        self.run("handoff-exporter",
                 [program, f"--config.file={config}", f"--storage.path={self.folder / 'store'}",
                  f"--web.listen-address=:{self.ports['web']}", "--shutdown.timeout=1s",
                  f"--api.listen-address=127.0.0.1:{self.ports['api']}"],
                 r"event=ready")

    def start_alertmanager(self):
        faster = FASTER if self.pace.name == "fast" else 1
        config = self.write("alertmanager.yml", settings.alertmanager(self.pager.url, faster))
        shutil.copy(settings.ALERTS / "alertmanager.tmpl", self.folder)
        self.run("alertmanager",
                 [shutil.which("prometheus-alertmanager") or "alertmanager", f"--config.file={config}",
                  f"--storage.path={self.folder / 'alertmanager'}", "--cluster.listen-address=",
                  f"--web.listen-address=127.0.0.1:{self.ports['alertmanager']}"],
                 r'msg="Listening on"')

    def start_prometheus(self):
        config = self.write("prometheus.yml", settings.prometheus(
            self.pace, settings.rules(self.pace, self.folder), f"127.0.0.1:{self.ports['web']}",
            f"127.0.0.1:{self.ports['alertmanager']}"))
        self.run("prometheus",
                 ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder / 'prometheus'}",
                  f"--web.listen-address=127.0.0.1:{self.ports['prometheus']}",
                  "--enable-feature=native-histograms,exemplar-storage"],
                 r"Server is ready to receive web requests")

    def start(self):
        self.pager.start()
        self.start_exporter()
        self.start_alertmanager()
        self.start_prometheus()
        self.announce()
        self.pipeline.start(f"http://127.0.0.1:{self.ports['api']}")
        story.Teller(self.pace, self.pipeline, self.tell).start()

    def end(self):
        """Stops whatever was started, clients before the services they use."""
        self.pipeline.stop()
        for program in reversed(self.programs):
            program.end()
        self.pager.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- output

    def announce(self):
        say(f"""
  status page     http://localhost:{self.ports['web']}/
  metrics         http://localhost:{self.ports['web']}/metrics
  Prometheus      http://localhost:{self.ports['prometheus']}/alerts
  Alertmanager    http://localhost:{self.ports['alertmanager']}/
  agents' API     http://127.0.0.1:{self.ports['api']}/v1/agents

What will happen ({'every window sixty times shorter' if self.pace.name == 'fast' else 'minutes:seconds from now'}):
""")
        say("\n".join(story.announcement(self.pace)))
        say("\nWhat happens (Ctrl-C stops the demo and cleans up):\n")

    def tell(self, text):
        say(f"{story.clock(self.pipeline.elapsed()):>6}  {text}")

    def tell_call(self, call):
        self.tell(pager.line(call))

    # ---- results

    def sent(self):
        """[(alert, receiver, target), ...] in the order of arrival, and whether all are resolved."""
        fired, over = self.pager.history()
        return [(call.labels["alertname"], call.receiver, call.labels.get("target_agent", "")) for call in fired], over

    def is_as_announced(self):
        expected = [alert.key for alert in story.expected_alerts(self.pace)]
        sent, over = self.sent()
        return over and sent == expected and self.pipeline.elapsed() > self.pace.loss_at + self.pace.loss_for

    def watch(self, until=None):
        """Waits until all went as announced, or the deadline; forever without `until`. Raises Failed if a
        program ends."""
        while True:
            self.pause(0.2)
            for program in self.programs:
                program.check()
            if until and (until() or self.pipeline.elapsed() > self.pace.deadline):
                return until()

    def report(self, good):
        if good:
            say(f"\nAs announced: {len(story.expected_alerts(self.pace))} alerts, in order, all resolved.")
            return
        say("\nNot as announced. Expected, and then resolved:")
        for alert in story.expected_alerts(self.pace):
            say(f"    {alert.key}")
        sent, over = self.sent()
        say(f"Sent, and {'resolved' if over else 'not all resolved'}:")
        for key in sent:
            say(f"    {key}")


def play(demo, options):
    """The exit status."""
    status = 130 if options.fast else 0     # if it is stopped early
    try:
        demo.start()
        good = demo.watch(demo.is_as_announced)
        demo.report(good)
        status = 0 if good else 1
        if options.stay or not options.fast:
            demo.watch()
    except Stopped:
        say("\nStopped.")
    except programs.Failed as failure:
        say(f"\n{failure}")
        status = 1
    return status


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="sixty times faster; the exit status tells success")
    parser.add_argument("--stay", action="store_true", help="with --fast: continue until Ctrl-C")
    options = parser.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)     # until the demo can be cleaned up
    demo = Demo(story.FAST if options.fast else story.NORMAL)
    for number in STOPS:
        signal.signal(number, demo.ask_to_stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    try:
        return play(demo, options)
    finally:
        demo.end()


if __name__ == "__main__":
    sys.exit(main())
