# SPDX-License-Identifier: Apache-2.0
"""Refuses an include that crosses the layers: which room, and which folder of client/, may know which header.

ARCHITECTURE.md has the table in words. Tests may include everything.
"""

import os
import pathlib
import re
import tempfile
import unittest

import source_tree

# room: what it may include of the project's headers, as prefixes, besides itself
MAY_KNOW = {
    "lib/base": (),
    "lib/tokens": ("lib/base/",),
    "lib/search": ("lib/base/",),
    "lib/words": ("lib/base/",),
    "lib/metrics": ("lib/base/check.h",),
    "lib/prom": ("lib/base/check.h", "lib/metrics/"),
    "lib/exposition": ("lib/base/check.h", "lib/base/header_list.h", "lib/metrics/metric.h"),
    "lib/promhttp": ("lib/base/check.h", "lib/exposition/", "lib/metrics/metric.h", "lib/prom/prom"),
    "client": ("lib/base/", "lib/search/", "lib/tokens/", "lib/words/"),
    "collectors": ("lib/base/check.h", "client/handoff.h", "lib/metrics/", "lib/prom/prom", "lib/prom/process_reading.h"),
    "exporter": ("lib/base/", "client/handoff.h", "client/host_loop.h", "client/calls/call.h", "client/calls/calls.def", "client/calls/preview.h",
                 "client/calls/schema.h", "client/model/field.h", "client/model/lenient.h", "client/model/handoff_agent_keys.def",
                 "client/secrets/redact.h",
                 "lib/metrics/metric.h", "lib/exposition/", "collectors/collectors.h"),
    # handoffctl checks configuration files with the daemon's own reader
    "ctl": ("lib/base/", "client/handoff.h", "client/model/handoff_model.def", "exporter/config/", "exporter/options.def",
            "exporter/version.h"),
}

# folder of client/: what it may include of client/ besides itself and handoff.h, as prefixes; "X/*" is every folder
# of X without a row. The files beside the folders put them together and may include all.
CLIENT_MAY_KNOW = {
    "client/model": (),
    "client/envelope": (),
    "client/secrets": ("client/model/",),
    "client/store": ("client/model/",),
    "client/store/sqlite": ("client/model/", "client/store/"),
    # the seams know no other folder; only client/client.c chooses a spine
    "client/spine": (),
    "client/spine/*": ("client/spine/",),
    "client/spine/embedded": ("client/spine/", "client/store/"),
    # what all kinds of servers share knows none of them
    "client/spine/remote": ("client/spine/spine.h", "client/spine/scopes.h", "client/model/", "client/transport/own_fault.h",
                            "client/transport/transport.h"),
    "client/spine/http": ("client/spine/remote/",),
    "client/spine/mcp": ("client/spine/remote/", "client/secrets/redact.h"),
    "client/transport": (),
    # delivery knows the seam alone; a protocol knows the delivery that it carries
    "client/protocol": ("client/protocol/", "client/envelope/", "client/secrets/redact.h",
                        "client/transport/transport.h"),
    "client/protocol/*": ("client/protocol/protocol.h", "client/protocol/body.h", "client/deliver/delivery.h",
                          "client/model/gaps.h", "client/secrets/redact.h", "client/transport/transport.h",
                          "client/agents/agents.h"),
    "client/deliver": ("client/protocol/protocol.h", "client/agents/", "client/channels/feeds.h", "client/envelope/", "client/model/",
                       "client/secrets/redact.h", "client/store/"),
    "client/channels": ("client/store/subscriptions.h",),
    "client/agents": ("client/protocol/protocol.h", "client/protocol/pull/inbox.h", "client/assemble/request.h",
                      "client/deliver/", "client/model/"),
    "client/ledger": ("client/envelope/", "client/model/", "client/store/"),
    "client/assemble": ("client/envelope/", "client/ledger/", "client/model/", "client/secrets/redact.h",
                        "client/spine/spine.h", "client/store/"),
    "client/calls": ("client/client.h", "client/agents/", "client/assemble/", "client/channels/", "client/deliver/", "client/envelope/",
                     "client/ledger/", "client/model/", "client/secrets/redact.h", "client/spine/spine.h",
                     "client/store/"),
    "client": ("client/",),
}

# header of a library: the only places that may include it, so that each is behind one module
LIBRARIES = {
    "microhttpd.h": ("exporter/", "lib/promhttp/"),
    "sqlite3.h": ("client/store/sqlite/", "client/spine/embedded/"),
    "curl/": ("client/transport/", "client/spine/remote/", "ctl/"),
    "yaml.h": ("exporter/",),
    "gnutls/": ("exporter/",),
    "crypt.h": ("exporter/",),
    "unicase.h": ("lib/words/",),
    "unictype.h": ("lib/words/",),
    "uninorm.h": ("lib/words/",),
    "unistring/": ("lib/words/",),
    "uniwbrk.h": ("lib/words/",),
    "uniwidth.h": ("ctl/",),
    "zlib.h": ("lib/exposition/",),
    "prometheus": (),
    "prom.h": (),
    "cmocka.h": (),
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def room_of(path):
    """The room that a path belongs to, or None."""
    return next((room for room in MAY_KNOW if str(path).startswith(room + "/")), None)


def refuse_own(path, target):
    room = room_of(path)
    if target.startswith(room + "/") or target.startswith(MAY_KNOW[room]):
        return None
    if room_of(target) or target.startswith("tests/"):
        allowed = ", ".join(MAY_KNOW[room]) or "nothing outside itself"
        return f"{path}: {room}/ may not include {target}; it may include {allowed}"
    return None


def refuse_inside_client(path, target):
    folder = str(path.parent)
    if not folder.startswith("client") or not target.startswith("client/"):
        return None
    known = CLIENT_MAY_KNOW.get(folder, CLIENT_MAY_KNOW.get(f"{path.parent.parent}/*"))
    if known is None:
        return f"{path}: {folder}/ has no row in CLIENT_MAY_KNOW"
    if os.path.dirname(target) == folder or target.startswith(("client/handoff.h", *known)):
        return None
    allowed = ", ".join(known) or "nothing outside itself"
    return f"{path}: {folder}/ may not include {target}; it may include {allowed}"


def refuse_library(path, header):
    for library, places in LIBRARIES.items():
        if header.startswith(library) and not str(path).startswith(places or ("/",)):
            allowed = ", ".join(places) or "tests/"
            return f"{path}: <{header}> belongs to {allowed} only"
    return None


def complaints(top, paths):
    """One line for every include in paths (relative to top) that crosses a layer."""
    found = []
    for path in paths:
        if not room_of(path):
            continue
        for quoted, system in INCLUDE.findall((top / path).read_text()):
            header = quoted or system
            beside = os.path.normpath(path.parent / header)
            target = beside if (top / beside).exists() else os.path.normpath(header)
            found.append(refuse_own(path, target) or refuse_inside_client(path, target) or
                         refuse_library(path, header))
    return [complaint for complaint in found if complaint]


class Layers(unittest.TestCase):
    maxDiff = None

    def test_no_include_crosses_a_layer(self):
        paths = [path for path in source_tree.files() if path.suffix in (".c", ".h", ".def", ".inc")]
        self.assertTrue(any(path.parts[0] == "client" for path in paths))
        self.assertEqual(complaints(source_tree.TOP, paths), [])


class SelfTest(unittest.TestCase):
    """A tree with one violation of each kind must be refused, line by line."""

    BAD = {
        "client/a.c": '#include "exporter/config/config.h"\n',
        "client/b.c": '#include <microhttpd.h>\n',
        "client/assemble/c.c": '  #  include <sqlite3.h>\n',
        "client/store/sqlite/d.c": '#include <curl/curl.h>\n',
        "client/e.c": '#include "../lib/metrics/metric.h"\n',
        "collectors/f.c": '#include "client/store/store.h"\n',
        "collectors/g.c": '#include <prom.h>\n#include <prometheus/x.h>\n',
        "exporter/h.c": '#include "lib/metrics/registry.h"\n',
        "lib/metrics/m.c": '#include "lib/base/json.h"\n',
        "exporter/i.c": '#include <sqlite3.h>\n',
        "ctl/j.c": '#include "exporter/http/http.h"\n',
        "exporter/k.c": '#include "tests/helper.h"\n',
        "ctl/l.c": '#include <client/store/store.h>\n',
        "client/spine/m.c": '#include "client/store/store.h"\n',
        "client/spine/n.h": '#include "embedded/embedded.h"\n',
        "client/protocol/push/r.c": '#include "client/transport/plain.h"\n',
        "client/transport/q.c": '#include "client/protocol/push/verdict.h"\n',
        "client/calls/o.c": '#include "client/spine/embedded/embedded_spine.h"\n',
        "client/deliver/n.c": '#include "client/transport/transport.h"\n',
        "client/deliver/o.c": '#include "client/protocol/pull/inbox.h"\n',
        "client/model/p.c": '#include "client/client.h"\n',
        "client/unheard_of/q.c": '#include "client/handoff.h"\n',
    }
    GOOD = {
        "lib/metrics/metric.h": "",
        "client/handoff.h": "",
        "client/store/sqlite/store.c": '#include <sqlite3.h>\n#include "client/handoff.h"\n',
        "client/client.c": '#include "client/spine/embedded/embedded_spine.h"\n',
        "client/spine/spine.h": "",
        "client/spine/embedded/embedded.h": '#include "client/store/store.h"\n#include "client/spine/spine.h"\n',
        "client/calls/x.c": '#include "client/spine/spine.h"\n',
        "client/loop.c": '#include "client/transport/transport.h"\n',
        "client/deliver/x.c": '#include "client/deliver/y.h"\n#include "client/protocol/protocol.h"\n',
        "client/transport/x.c": '#include <curl/curl.h>\n#include <yyjson.h>\n',
        "collectors/x.c": '#include "client/handoff.h"\n#include "../lib/metrics/metric.h"\n',
        "exporter/x.c": '#include "lib/metrics/metric.h"\n#include <microhttpd.h>\n',
        "ctl/x.c": '#include "exporter/config/config.h"\n#include <curl/curl.h>\n',
        "tests/unit/x.c": '#include "client/store/store.h"\n#include <microhttpd.h>\n',
    }

    def check(self, tree):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            for name, text in {**self.GOOD, **tree}.items():
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_text(text)
            return complaints(top, [pathlib.Path(name) for name in sorted({**self.GOOD, **tree})])

    def test_a_good_tree_passes(self):
        self.assertEqual(self.check({}), [])

    def test_every_violation_is_named(self):
        refused = {complaint.split(":")[0] for complaint in self.check(self.BAD)}
        self.assertEqual(refused, set(self.BAD))


if __name__ == "__main__":
    unittest.main()
