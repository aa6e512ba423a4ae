# SPDX-License-Identifier: Apache-2.0
"""Makes a store with the daemon of another version, for tests/scenario/test_previous_store.py.

    git worktree add /tmp/old ac664b1 && cd /tmp/old && cmake --preset release && cmake --build --preset release
    HANDOFF_SOURCE_DIR=$PWD HANDOFF_EXPORTER=/tmp/old/build/release/exporter/handoff-exporter \\
        HANDOFF_VOCABULARY_DIR=/tmp/old/build/release/vocabulary PYTHONPATH=tests/scenario \\
        /usr/bin/python3 tests/stores/make.py tests/stores/ac664b1.tar.gz

The daemon is killed, so its last commits are only in the WAL. The archive has the files of the store and
handoffs.json, the ids by what happened to the handoff.
"""

import contextlib
import json
import pathlib
import sys
import tarfile
import tempfile

from harness import Daemon, Receiver, eventually
from harness.agents import Caller, config
from harness.receiver import Hold, ack, later, status

KEY = {"idempotency-key": "run-17"}
MEMORY = {"content": "The bank retries a payment three times.", "summary": "Three retries.",
          "importance": "high", "tags": ["payments"]}


def fill(caller, receivers):
    """One handoff in each state that a store keeps; {what happened: id}."""
    ids = {}
    assert caller.call("PUT", "/v1/memories/ms-4821", MEMORY).status == 201
    ids["acknowledged"] = caller.send(headers=KEY, memory_ids=["ms-4821"]).json()["id"]
    ids["parked"] = caller.send("refuser").json()["handoff"]["id"]
    ids["waiting"] = caller.send_async("reviewer")
    ids["awaiting"] = caller.send_async("slow")
    caller.wait_for_state(ids["awaiting"], "awaiting_ack")
    eventually(lambda: caller.attempts(ids["awaiting"]), "the 202 is written")
    ids["in_flight"] = caller.send_async("busy")
    receivers["busy"].wait_for(1)
    return ids


def main(archive):
    with contextlib.ExitStack() as stack:
        receivers = {name: stack.enter_context(Receiver(step)) for name, step in
                     (("coder", ack), ("refuser", status(400)), ("slow", later), ("busy", Hold()))}
        agents = {name: {"url": receiver.url} for name, receiver in receivers.items()}
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        daemon = Daemon(config=config({**agents, "reviewer": {}}), folder=folder)
        ids = fill(Caller(daemon), receivers)
        daemon.kill()
        receivers["busy"].do(ack)
        data = pathlib.Path(folder) / "data"
        (data / "handoffs.json").write_text(json.dumps(ids, indent=2) + "\n", encoding="utf-8")
        with tarfile.open(archive, "w:gz") as tar:
            for path in sorted(data.iterdir()):
                if path.name.startswith("handoff"):
                    tar.add(path, path.name)
                print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1])
