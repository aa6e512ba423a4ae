# SPDX-License-Identifier: Apache-2.0
"""A wire between a client and the sidecar, which can be cut, freeze, and keeps what clients send.

    with Wire(daemon.api.address) as wire:
        ... a client of {wire.url} ...
        wire.cut()

tls: an ssl.SSLContext with which it ends TLS, as a proxy in front of the sidecar does.
"""

import contextlib
import re
import selectors
import socket
import threading

BLOCK = 65536


class Wire:
    def __init__(self, target, tls=None):
        self.tls = tls
        host, _, port = target.rpartition(":")
        self.target = (host.strip("[]"), int(port))
        self.lock = threading.Lock()
        self.pairs = []
        self.heads = []  # of all requests
        self.refused = 0  # connections, while the sidecar does not listen
        self.marker = None
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    @property
    def address(self):
        return "127.0.0.1:%d" % self.listener.getsockname()[1]

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://{self.address}"

    def requests(self, path):
        """The headers of each request for a path that matches, names in lower case."""
        with self.lock:
            heads = [head for head in self.heads if re.search(path, head.partition("\r\n")[0])]
        return [{name.lower(): value for name, value in re.findall(r"^([\w-]+): (.*?)\r$", head, re.MULTILINE)}
                for head in heads]

    def answered(self, marker):
        """Whether the sidecar sent these bytes on a connection since the last cut, and the client has them."""
        with self.lock:
            return any(marker in near.sent for near, _ in self.pairs)

    def cut(self):
        """Breaks all connections now; new ones work."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def cut_after(self, marker):
        """Breaks the connection on which the sidecar sends these bytes next, right behind them."""
        with self.lock:
            self.marker = marker

    def freeze(self):
        """Nothing arrives on connections that are open; new ones work."""
        with self.lock:
            for pair in self.pairs:
                pair[0].frozen.set()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self.target)
            except OSError:
                self.refused += 1
                near.close()
                continue
            threading.Thread(target=self._serve, args=(near, far), daemon=True).start()

    def _serve(self, near, far):
        if self.tls:
            try:
                near = self.tls.wrap_socket(near, server_side=True)
            except OSError:  # the client did not trust it
                near.close()
                far.close()
                return
        near = _End(near)
        with self.lock:
            self.pairs.append((near, far))
        self._forward(near, far)

    def _forward(self, near, far):
        with near, far, selectors.DefaultSelector() as selector, contextlib.suppress(OSError):
            selector.register(near.socket, selectors.EVENT_READ, (near, far))
            selector.register(far, selectors.EVENT_READ, (far, near))
            while selector.get_map():
                for key, _ in selector.select():
                    source, sink = key.data
                    block = source.recv(BLOCK)
                    while block and source is near and near.pending():  # TLS has read more than it gave
                        block += source.recv(BLOCK)
                    if near.frozen.is_set():
                        continue
                    if not block:
                        selector.unregister(key.fileobj)
                        sink.shutdown(socket.SHUT_WR)
                    elif source is far and self._cuts(block, near):
                        return
                    else:
                        sink.sendall(block)
                        self._note(near, block, source is near)

    def _note(self, near, block, is_request):
        if not is_request:
            near.sent = (near.sent + block)[-BLOCK:]
        elif re.match(rb"[A-Z]+ /\S* HTTP/1\.1\r\n", block):
            with self.lock:
                self.heads.append(block.partition(b"\r\n\r\n")[0].decode("latin-1") + "\r\n")

    def _cuts(self, block, near):
        with self.lock:
            at = block.find(self.marker) if self.marker else -1
            if at < 0:
                return False
            end, self.marker = at + len(self.marker), None
        near.sendall(block[:end])
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.cut()


class _End:
    """The client's side of a connection."""

    def __init__(self, end):
        self.socket = end
        self.sent = b""  # the end of it
        self.frozen = threading.Event()
        self.recv, self.sendall = end.recv, end.sendall
        self.pending = getattr(end, "pending", lambda: 0)

    def shutdown(self, how):
        """Also below TLS."""
        socket.socket.shutdown(self.socket, how)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
