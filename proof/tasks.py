# SPDX-License-Identifier: Apache-2.0
"""The tasks: what a pipeline of agents has to know, generated from a seed.

A task has items. The user brings the intent and the constraints; each agent adds decisions, questions, facts and steps.
Each item has a token, a word that occurs nowhere else, so that a judge can look for it in any text. At each stage the
agent needs some of the items of those before it.
"""

import dataclasses
import json
import random

AGENTS = ["researcher", "analyst", "architect", "code-generator", "test-writer", "reviewer", "doc-writer",
          "release-manager", "support-engineer"]   # nine, so that there are eight handoffs
KINDS = ["intent", "constraint", "subtle", "decision", "unresolved", "fact", "step"]

_SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
_SUBJECTS = ["the payment gateway", "the refund service", "the settlement job", "the ledger of the merchant",
             "the retry queue", "the bank's sandbox", "the fraud check", "the currency table", "the audit trail",
             "the webhook of the partner", "the reconciliation report", "the card vault"]
_VERBS = ["rejects", "repeats", "delays", "reports", "rounds", "caches", "signs", "splits", "expires", "groups"]
_OBJECTS = ["a payment above the daily limit", "requests without a signature", "the second attempt of a refund",
            "amounts in a currency without cents", "a partial capture", "duplicate order numbers",
            "the answer of the acquirer", "late chargebacks", "cards of the test range", "each nightly batch"]
_WHEN = ["on weekends", "after a timeout of thirty seconds", "while a deployment is running", "in the European region",
         "for merchants without a contract", "when the queue holds more than a thousand entries",
         "before the cut-off at six in the evening", "if the clock of the partner is ahead"]


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a reader can change about the tasks."""
    budgets: tuple = (1500, 8000)   # least and greatest number of tokens that an agent can be handed
    needs: int = 6                  # items that each agent needs


@dataclasses.dataclass(frozen=True)
class Item:
    kind: str
    agent: int       # who brought it: an index of AGENTS; 0 has the user's words as well
    token: str
    text: str        # has the token
    memory: str = ""  # of a fact: the id under which its agent stores it


@dataclasses.dataclass(frozen=True)
class Task:
    number: int
    seed: int
    items: tuple
    budgets: tuple   # tokens that each agent can be handed; that of the first is not used
    needs: tuple     # for each agent the tokens of items of those before it; their number is in the shape

    @property
    def name(self):
        return f"task-{self.seed}-{self.number}"

    def brought_by(self, agent, *kinds):
        return [item for item in self.items if item.agent == agent and (not kinds or item.kind in kinds)]

    def before(self, agent):
        return [item for item in self.items if item.agent < agent]


def draw(seed, *names):
    """A source of random numbers that depends on nothing but what it is drawn for."""
    return random.Random(":".join(str(part) for part in (seed, *names)))


def _token(chance):
    return "".join(chance.choice(_SYLLABLES) for _ in range(5))


def sentence(chance):
    return f"{chance.choice(_SUBJECTS)} {chance.choice(_VERBS)} {chance.choice(_OBJECTS)} {chance.choice(_WHEN)}"


def prose(chance, words):
    """About this many words of filler."""
    text = []
    while sum(part.count(" ") + 1 for part in text) < words:
        text.append(sentence(chance).capitalize() + ".")
    return " ".join(text)


def most_needs():
    """The first handoff carries this many items, and no agent can need more."""
    return sum(item.agent == 0 for item in make(0, 0, Shape(needs=0)).items)


def _user_items(chance):
    word = _token(chance)
    yield Item("intent", 0, word, f"Make sure that no customer of {word} is charged twice when {sentence(chance)}")
    for demand in ("Never log", "Never store", "Never change", "Never retry"):
        word = _token(chance)
        yield Item("constraint", 0, word, f"{demand} what {word} covers")
    for aside in ("By the way, keep the interface of", "People on call would also like to see"):
        word = _token(chance)
        yield Item("subtle", 0, word, f"{aside} {word} as it is.")


def _agent_items(chance, task, agent):
    for _ in range(2):
        word = _token(chance)
        yield Item("decision", agent, word, f"Use {word} because {sentence(chance)}")
    word = _token(chance)
    yield Item("unresolved", agent, word, f"Who answers for {word} if {sentence(chance)}?")
    for number in range(2):
        word = _token(chance)
        middle = prose(chance, chance.randrange(20, 120))
        yield Item("fact", agent, word, f"{middle} The value for {word} was measured. {prose(chance, 20)}",
                   f"ms-{10000 + task * 100 + agent * 10 + number}")
    for _ in range(3):
        word = _token(chance)
        yield Item("step", agent, word, f"checked {word}: {sentence(chance)}")


def make(seed, number, shape=Shape()):
    chance = draw(seed, "task", number)
    items = list(_user_items(chance))
    for agent in range(len(AGENTS)):
        items += _agent_items(chance, number, agent)
    budgets = [chance.randrange(shape.budgets[0], shape.budgets[1] + 1) for _ in AGENTS]
    needs = [()]
    for agent in range(1, len(AGENTS)):
        before = [item.token for item in items if item.agent < agent]
        needs.append(tuple(chance.sample(before, shape.needs)))
    return Task(number, seed, tuple(items), tuple(budgets), tuple(needs))


def line(task):
    """The task as one line of JSON, for other programs."""
    return json.dumps({"task": task.name, "seed": task.seed, "number": task.number, "agents": AGENTS, "budgets": task.budgets,
                       "items": [dict(dataclasses.asdict(item), agent=AGENTS[item.agent]) for item in task.items],
                       "needs": dict(zip(AGENTS[1:], task.needs[1:]))}, ensure_ascii=False)


def read_line(text):
    """The Task of such a line."""
    line = json.loads(text)
    items = tuple(Item(**dict(item, agent=AGENTS.index(item["agent"]))) for item in line["items"])
    needs = ((), *(tuple(line["needs"][name]) for name in AGENTS[1:]))
    return Task(line["number"], line["seed"], items, tuple(line["budgets"]), needs)
