# SPDX-License-Identifier: Apache-2.0
"""The script of the demo: what happens when, and which alerts must fire.

There is one script with two paces. At the normal pace, the demo uses the shipped alert rules and takes as
long as they need. The fast pace is for tests: every window of the rules is sixty times shorter
(tests/alerts/sixty_times_faster.jsonnet), and so is the script.

The numbers are matched to the rules (alerts/config.libsonnet) so that exactly the announced alerts are
sent:
- Three failures among hundreds of handoffs stay below every failure-rate threshold. The lowest, 0.5 %, needs
  600 handoffs; even a machine at half speed reaches that before the alert stops pending.
- The agent recovers before the breaker's cooldown ends, so the first probe succeeds and the circuit opens
  only once.
- Parked handoffs are replayed before they have waited for an hour.
- More than a fifth of the memories requested in the window of HandoffCompletenessCritical are lost.
"""

import dataclasses
import threading

BAD_AGENT = "code-generator"


@dataclasses.dataclass(frozen=True)
class Pace:
    """Times are in seconds unless noted."""
    name: str
    scrape: str             # interval of scrapes and rules, as Prometheus writes it
    task_every: float       # a new task arrives
    reading: float          # mean, until an agent acknowledges a handoff
    work: float             # mean, until it hands off the result
    retries: int
    backoff: dict           # of the sidecar
    cooldown: str           # of the circuit breakers
    bad_at: float           # BAD_AGENT starts answering 503
    bad_for: float
    replay_at: float        # an operator replays the parked handoffs
    loss_at: float          # the spine starts losing memories
    loss_for: float
    circuit_alert: float    # when each alert is expected, and when all are resolved
    critical_alert: float
    low_alert: float
    over: float
    deadline: float         # for everything announced; after that the demo has failed


NORMAL = Pace(name="normal", scrape="5s", task_every=1.5, reading=0.08, work=1.2,
              retries=2, backoff={"base": "200ms", "max": "1s"}, cooldown="70s",
              bad_at=120, bad_for=60, replay_at=240, loss_at=360, loss_for=240,
              circuit_alert=133, critical_alert=585, low_alert=1620, over=4300, deadline=5400)
FAST = Pace(name="fast", scrape="1s", task_every=0.2, reading=0.01, work=0.06,
            retries=1, backoff={"base": "50ms", "max": "100ms"}, cooldown="12s",
            bad_at=40, bad_for=10, replay_at=58, loss_at=64, loss_for=12,
            circuit_alert=42, critical_alert=70, low_alert=92, over=142, deadline=215)


@dataclasses.dataclass(frozen=True)
class Alert:
    """An alert that will be sent: its name, its receiver, and roughly when it fires first."""
    name: str
    receiver: str
    target: str
    at: float

    @property
    def key(self):
        return self.name, self.receiver, self.target


def expected_alerts(pace):
    """All alerts that are sent, in the order in which they first fire."""
    return [Alert("HandoffCircuitOpen", "pager", BAD_AGENT, pace.circuit_alert),
            Alert("HandoffCompletenessCritical", "pager", "", pace.critical_alert),
            Alert("HandoffCompletenessLow", "tickets", "", pace.low_alert)]


@dataclasses.dataclass(frozen=True)
class Event:
    at: float
    text: str
    action: object = None   # a function of the pipeline, or None if there is nothing to do


def events(pace):
    """The events, in order."""
    return [
        Event(0, "five agents hand work to one another"),
        Event(pace.bad_at, f"{BAD_AGENT} starts answering every request with 503",
              lambda pipeline: pipeline.break_agent(BAD_AGENT)),
        Event(pace.bad_at + pace.bad_for, f"{BAD_AGENT} has recovered; its circuit closes with the first probe",
              lambda pipeline: pipeline.mend_agent(BAD_AGENT)),
        Event(pace.replay_at,
              f"an operator replays the parked handoffs (handoffctl parked replay --target {BAD_AGENT})",
              lambda pipeline: pipeline.replay_parked()),
        Event(pace.loss_at, "the spine loses every memory, old and new",
              lambda pipeline: pipeline.lose_memories()),
        Event(pace.loss_at + pace.loss_for, "the memories are restored from a backup",
              lambda pipeline: pipeline.restore_memories()),
    ]


def clock(seconds):
    """2:05"""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def announcement(pace):
    """[line, ...]: the whole script, printed in advance."""
    lines = [(event.at, event.text) for event in events(pace)]
    lines += [(alert.at, f"ALERT to the {alert.receiver}: {alert.name}"
               + (f" for {alert.target}" if alert.target else "")) for alert in expected_alerts(pace)]
    lines.append((pace.over, "the last of these alerts is resolved"))
    return [f"{clock(at):>6}  {text}" for at, text in sorted(lines, key=lambda line: line[0])]


class Teller(threading.Thread):
    """Runs the script. `tell` is called with the text of each event."""

    def __init__(self, pace, pipeline, tell):
        super().__init__(name="story", daemon=True)
        self.pace, self.pipeline, self.tell = pace, pipeline, tell

    def run(self):
        for event in events(self.pace):
            if self.pipeline.wait_until(event.at):
                return
            self.tell(event.text)
            if event.action:
                event.action(self.pipeline)
