# SPDX-License-Identifier: Apache-2.0
"""The ways of handing off that the proof compares, and what each agent knows.

To add one: a subclass of Way with hand_on(), and a row in WAYS of proof.py or of a file for --add. What agents do by
themselves today is given every advantage: it is written at each class. sidecar.py has the way of this project, service.py
that of any HTTP service.
"""

import dataclasses
import http.client
import random
import time

import tasks

SENDER_TIMEOUT_S = 1.0   # chosen: what takes longer is late
CHARACTERS_PER_TOKEN = 4

# Of the facts, what is left at two to five agents in a published measurement (TruPath, 38 chains); after that as before.
PUBLISHED = [0.91, 0.76, 0.58, 0.41]


def published_loss(agent):
    """The share that is lost in the handoff to this agent, so that PUBLISHED is left."""
    left = [1.0, *PUBLISHED]
    at = min(agent, len(PUBLISHED))
    return 1 - left[at] / left[at - 1]


class NotMeasured(Exception):
    """A way did what it must not, or cannot be measured like this: the run ends with it."""


@dataclasses.dataclass
class Received:
    """What an agent was handed. The judge reads this and nothing else."""
    text: str
    tokens: int
    envelope: dict = None      # where it is one
    fetch: object = None       # path -> (status, document), or None where nothing can be fetched
    notes: tuple = ()          # what else happened, for the counts: "replayed by a person" ...


@dataclasses.dataclass
class Hand:
    """What an agent has when it hands on: what it was handed, found in it, and fetched."""
    agent: int
    received: Received = None
    known: set = dataclasses.field(default_factory=set)   # tokens of items of those before it


class Way:
    """hand_on() is one handoff. It is called by many threads at once."""

    title = ""
    kills = 0    # of processes that hand on, until the end

    def __init__(self, receivers, options):
        self.receivers = receivers
        self.options = options

    def open(self):
        """Before the first task."""

    def close(self):
        """After the last one."""

    def hand_on(self, task, hand):
        """Received of the next agent, or None: it never arrived."""
        raise NotImplementedError

    def post(self, task, agent, text, retries):
        """To the agent, as an HTTP client does: a failure is tried again, if at all, after a short wait.

        A person looks at what was refused, and it is sent once more."""
        name = tasks.AGENTS[agent]
        attempt = 0
        while attempt <= retries:
            if attempt:
                time.sleep(random.uniform(0, 0.02 * 2 ** attempt))
            attempt += 1
            connection = http.client.HTTPConnection("127.0.0.1", self.receivers.port, timeout=SENDER_TIMEOUT_S)
            try:
                connection.request("POST", f"/{name}", text.encode(), {"Handoff-Task-Id": task.name, "Handoff-Id": "-"})
                status = connection.getresponse().status
                if status == 200:
                    break
                if status == 422:
                    attempt -= 1
            except OSError:
                pass
            except http.client.HTTPException:
                pass
            finally:
                connection.close()
        taken = self.receivers.taken(task.name, name)
        return None if taken is None else Received(taken, len(taken) // CHARACTERS_PER_TOKEN)


class Summary(Way):
    """A summary in plain text, posted once.

    The sender writes down each thing it knows, except what the loss of the draw makes it leave out. Given to it: every
    item keeps the words of the agent that said it first; a summary that an agent took counts although its answer was lost;
    no budget cuts it.
    """

    title = "plain summary, one POST"

    @property
    def retries(self):
        return 0

    def write(self, items):
        return "\n".join(item.text for item in items)

    def kept(self, task, hand):
        """What the sender knows, less what it leaves out in this handoff."""
        agent = hand.agent + 1
        loss = published_loss(agent) if self.options.loss == "published" else float(self.options.loss)
        said = [item for item in task.before(agent) if item.agent == hand.agent or item.token in hand.known]
        return [item for item in said
                if tasks.draw(task.seed, "loss", task.number, agent, item.token).random() >= loss]

    def hand_on(self, task, hand):
        return self.post(task, hand.agent + 1, self.write(self.kept(task, hand)), self.retries)


class Chosen(Summary):
    """A JSON document of what the sender thinks is needed, with retries: the same loss as Summary."""

    title = "JSON of what seems needed, retries"

    @property
    def retries(self):
        return self.options.retries

    def write(self, items):
        lines = (f'  {{"kind": "{item.kind}", "text": "{item.text}"}}' for item in items)
        return "[\n" + ",\n".join(lines) + "\n]"


class Transcript(Way):
    """The end of the whole transcript that fits the receiver's budget, as agent frameworks pass it, with retries.

    Each agent talks for a length that is written down, and says all of its items at random places. Given to it: nothing
    is paraphrased, and a token is four characters.
    """

    talk_tokens = 0

    def talk(self, task, agent):
        chance = tasks.draw(task.seed, "talk", task.number, agent)
        said = [item.text for item in task.brought_by(agent)]
        length = sum(len(text) + 1 for text in said)
        while length < self.talk_tokens * CHARACTERS_PER_TOKEN:
            said.append(tasks.prose(chance, 12))
            length += len(said[-1]) + 1
        chance.shuffle(said)
        return f"{tasks.AGENTS[agent]}:\n" + "\n".join(said) + "\n"

    def hand_on(self, task, hand):
        agent = hand.agent + 1
        whole = "".join(self.talk(task, speaker) for speaker in range(agent))
        return self.post(task, agent, whole[-task.budgets[agent] * CHARACTERS_PER_TOKEN:], self.options.retries)


def transcript_of(tokens):
    """Transcript, of agents that talk this much."""
    return type("Transcript", (Transcript,),
                {"title": f"tail of the transcript, {tokens:,} tokens an agent", "talk_tokens": tokens})
