# SPDX-License-Identifier: Apache-2.0
"""What will happen in the demo, when, and which alerts must come of it.

There is one story and two paces. At the normal pace the alert rules are the shipped ones, and the
story takes as long as such things take. The fast pace is for tests: every window of the rules is
sixty times shorter (tests/alerts/sixty_times_faster.jsonnet), and so is what happens.

The numbers are chosen against the rules (alerts/config.libsonnet), so that exactly the announced
alerts are sent:
- Three failures among hundreds of handoffs stay under every failure rate. It takes 600 to be under the
  lowest, 0.5 %, and a machine at half speed has made those before that alert's pending time is over.
- The agent is well again before the breaker's cooldown is over, so the first probe succeeds and the
  circuit opens once.
- What was parked is replayed before it has waited for an hour.
- Of the memories asked for, more than a fifth of the window of HandoffCompletenessCritical is lost.
"""

import dataclasses
import threading

BAD_AGENT = "code-generator"


@dataclasses.dataclass(frozen=True)
class Pace:
    """Seconds, unless it says otherwise."""
    name: str
    scrape: str             # interval of scrapes and rules, as Prometheus writes it
    task_every: float       # a new task comes in
    reading: float          # mean, until an agent acknowledges what it was handed
    work: float             # mean, until it hands the result on
    retries: int
    backoff: dict           # of the sidecar
    cooldown: str           # of the circuit breakers
    bad_at: float           # BAD_AGENT begins to answer 503
    bad_for: float
    replay_at: float        # a person sends again what was parked
    loss_at: float          # the spine begins to lose memories
    loss_for: float
    circuit_alert: float    # when the alerts are to be expected, and when all of them are over
    critical_alert: float
    low_alert: float
    over: float
    deadline: float         # of all that is announced; then the demo has failed


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
    """One that will be sent: its name, whom it is sent to, and about when it comes first."""
    name: str
    receiver: str
    target: str
    at: float

    @property
    def key(self):
        return self.name, self.receiver, self.target


def expected_alerts(pace):
    """All alerts that are sent, in the order in which they first come."""
    return [Alert("HandoffCircuitOpen", "pager", BAD_AGENT, pace.circuit_alert),
            Alert("HandoffCompletenessCritical", "pager", "", pace.critical_alert),
            Alert("HandoffCompletenessLow", "tickets", "", pace.low_alert)]


@dataclasses.dataclass(frozen=True)
class Event:
    at: float
    text: str
    action: object = None   # a function of the pipeline, or None where nobody does anything


def events(pace):
    """What happens, in its order."""
    return [
        Event(0, "five agents hand work to one another"),
        Event(pace.bad_at, f"{BAD_AGENT} answers everything with 503",
              lambda pipeline: pipeline.break_agent(BAD_AGENT)),
        Event(pace.bad_at + pace.bad_for, f"{BAD_AGENT} is well again; its circuit closes with the first probe",
              lambda pipeline: pipeline.mend_agent(BAD_AGENT)),
        Event(pace.replay_at,
              f"a person sends the parked handoffs again (handoffctl parked replay --target {BAD_AGENT})",
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
    """[line, ...]: the whole story, told beforehand."""
    lines = [(event.at, event.text) for event in events(pace)]
    lines += [(alert.at, f"ALERT to the {alert.receiver}: {alert.name}"
               + (f" for {alert.target}" if alert.target else "")) for alert in expected_alerts(pace)]
    lines.append((pace.over, "the last of these alerts is over"))
    return [f"{clock(at):>6}  {text}" for at, text in sorted(lines, key=lambda line: line[0])]


class Teller(threading.Thread):
    """Lets the story happen. `tell` is called with the text of each event."""

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
