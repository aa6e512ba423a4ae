# SPDX-License-Identifier: Apache-2.0
"""Writes handoff/aio.py from handoff/client.py: the same methods as coroutines, over the same generators.

    python3 clients/python/generate_aio.py
"""

import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent / "handoff"

RUN = '''\
    async def _run(self, flow: Flow[T]) -> T:
        response: Optional[Response] = None
        error: Optional[UnreachableError] = None
        while True:
            try:
                step = flow.throw(error) if error else flow.send(response) if response else next(flow)
            except StopIteration as end:
                result: T = end.value
                return result
            response, error = None, None
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                continue
            try:
                response = await self._transport.exchange(step)
            except UnreachableError as unreachable:
                error = unreachable

'''


def method(text):
    """One method: a coroutine if it does I/O."""
    if not re.search(r"\._run\(|_transport\.close\(|self\.close\(", text):
        return text
    text = re.sub(r"^(    )def ", r"\1async def ", text, count=1)
    text = re.sub(r"((?:self(?:\.spine)?\._run|self\._transport\.close|self\.close)\()", r"await \1", text)
    return text.replace("__exit__", "__aexit__")


def generated(source):
    head, body = re.split(r"(?=^class MemorySpine)", source, maxsplit=1, flags=re.MULTILINE)
    head = (head.replace("MemorySpine: the agent API of a sidecar. handoff/aio.py is generated from this file; see CONTRIBUTING.md.",
                         "AsyncMemorySpine: MemorySpine for asyncio. Generated from client.py by generate_aio.py.")
            .replace("spine.hand_off", "await spine.hand_off")
            .replace("import ssl\nimport time\n", "import asyncio\nimport ssl\n")
            .replace("from .transport import Transport", "from .aio_transport import AsyncTransport"))
    body = re.sub(r"^    def _run.*?(?=^    # ---- handing off)", lambda _: RUN, body, flags=re.MULTILINE | re.DOTALL)
    pieces = re.split(r"(?=^    def |^class |^def )", body, flags=re.MULTILINE)
    body = "".join(method(piece) if piece.startswith("    def") else piece for piece in pieces)
    text = (head + body).replace("    def __enter__", "    async def __aenter__")
    text = text.replace("Safe to share between threads.", "It belongs to one event loop.")
    text = re.sub(r"\b(MemorySpine|Channel)\b", r"Async\1", text)
    text = text.replace("AsyncAsync", "Async").replace(" Transport(", " AsyncTransport(").replace("AsyncMemorySpine for asyncio", "MemorySpine for asyncio")
    return text


if __name__ == "__main__":
    (FOLDER / "aio.py").write_text(generated((FOLDER / "client.py").read_text()))
