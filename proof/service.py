# SPDX-License-Identifier: Apache-2.0
"""The way of any HTTP service that hands on: --service names its address.

For each handoff the service gets one POST with a JSON object:

    task, source, target   names
    url                    where the service has to POST what it hands on, whatever its form
    max_tokens             what the target can be handed
    new                    what the source says: a list of {"kind", "text", "memory"}; memory is the id of a fact
    known                  what the source was handed or has fetched, in the same form
    text                   both as plain text, a line for each

What arrives at `url` within --service-wait seconds is what the target was handed. A service that hands on ids of memories
instead of their text names with --service-fetch where {id} can be fetched. An answer other than 2xx is tried again as often
as --retries says; relay.py is an example of such a service.
"""

import http.client
import json
import urllib.parse
import urllib.request

import tasks
import ways


def as_json(items):
    return [{"kind": item.kind, "text": item.text, "memory": item.memory} for item in items]


class Service(ways.Way):
    @property
    def title(self):
        return f"the service at {urllib.parse.urlsplit(self.options.service).netloc}"

    def hand_on(self, task, hand):
        target = tasks.AGENTS[hand.agent + 1]
        body = json.dumps(self.request(task, hand, target)).encode()
        if not any(self.send(body) for _ in range(1 + self.options.retries)):
            return None
        text = self.receivers.wait(task.name, target, self.options.service_wait)
        return None if text is None else ways.Received(text, len(text) // ways.CHARACTERS_PER_TOKEN, fetch=self.fetcher())

    def request(self, task, hand, target):
        new = task.brought_by(hand.agent)
        known = [item for item in task.before(hand.agent) if item.token in hand.known]
        return {"task": task.name, "source": tasks.AGENTS[hand.agent], "target": target,
                "url": f"{self.receivers.url(target)}/{task.name}", "max_tokens": task.budgets[hand.agent + 1],
                "new": as_json(new), "known": as_json(known), "text": "\n".join(item.text for item in known + new)}

    def send(self, body):
        """Whether the service has taken it."""
        request = urllib.request.Request(self.options.service, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=self.options.service_wait):
                return True
        except (OSError, http.client.HTTPException):
            return False

    def fetcher(self):
        return self.fetch if self.options.service_fetch else None

    def fetch(self, path):
        """(status, document) of a memory; `path` is where the sidecar would have it, and ends with its id."""
        url = self.options.service_fetch.replace("{id}", path.rpartition("/")[2])
        try:
            with urllib.request.urlopen(url, timeout=self.options.service_wait) as answer:
                return 200, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 404, None
