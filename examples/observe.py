# SPDX-License-Identifier: Apache-2.0
"""Reports handoffs that an agent framework makes on its own to the sidecar, for the metrics.

    observer = Observer("planner")
    with observer.handoff("researcher", hop_count=2) as told:  # around the framework's own call
        told["token_count"] = run(researcher).usage.total_tokens
    @observer.handoff("writer")                                # the same as a decorator
    observer.on_handoff_start(run_id, "critic")                # or from a callback handler:
    observer.on_handoff_end(run_id, error=None)

Never raises into the agent and never blocks it: a thread sends batches and retries failed ones, which is
safe because each handoff has an id. docs/observations.md lists the fields."""
import contextlib, datetime, json, queue, threading, time, urllib.error, urllib.request, uuid

class Observer:
    def __init__(self, source, url="http://127.0.0.1:8780", token=None, every=1.0):
        self.source, self.url, self.every = source, url + "/v1/observations", every
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.waiting, self.runs, self.lost, self.rejected = queue.Queue(10000), {}, 0, []
        threading.Thread(target=self._send_forever, daemon=True).start()
    def on_handoff_start(self, run_id, target, **told):
        self.runs[run_id] = {"id": str(uuid.uuid4()), "source_agent": self.source, "target_agent": target,
                             "outcome": "acknowledged", "began": time.monotonic(), **told}
    def on_handoff_end(self, run_id, error=None, **told):
        told = {**self.runs.pop(run_id, {}), **told}
        if error is not None:
            told["outcome"] = "expired" if isinstance(error, TimeoutError) else "exhausted"
        told.setdefault("latency_seconds", time.monotonic() - told.pop("began", time.monotonic()))
        told["timestamp"] = datetime.datetime.now(datetime.timezone.utc).isoformat()
        try:
            self.waiting.put_nowait(told)
        except queue.Full:
            self.lost += 1
    @contextlib.contextmanager
    def handoff(self, target, **told):
        run_id, more, error = object(), {}, None
        self.on_handoff_start(run_id, target, **told)
        try:
            yield more
        except BaseException as caught:
            error = caught
            raise
        finally:
            self.on_handoff_end(run_id, error, **more)
    def _send_forever(self):
        while True:
            batch = [self.waiting.get()]
            time.sleep(self.every)  # collect a batch
            while len(batch) < 1000 and not self.waiting.empty():
                batch.append(self.waiting.get())
            while not self._send(json.dumps({"items": batch}, default=str).encode()):
                time.sleep(self.every)
    def _send(self, body):
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url, body, self.headers), timeout=10) as answer:
                self.rejected = json.load(answer)["rejected"] or self.rejected  # the last ones, for debugging
        except Exception as error:  # a batch rejected as a whole would be rejected again
            return isinstance(error, urllib.error.HTTPError) and error.code < 500
        return True
