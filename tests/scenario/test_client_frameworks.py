# SPDX-License-Identifier: Apache-2.0
"""The examples with agent frameworks run as they are: the real packages, a model that is played, and the real sidecar."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import Daemon, TIMEOUT, environment
from harness import clients

PACKAGES = clients.TOP / "tests/adapters/node_modules"


def setUpModule():
    clients.require_node()


class Frameworks(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        modules = self.folder / "node_modules"
        modules.mkdir()
        for package in PACKAGES.iterdir():
            (modules / package.name).symlink_to(package)
        (modules / "handoff").symlink_to(pathlib.Path(clients.built_typescript().name, "node_modules/handoff"))
        self.daemon = self.enterContext(Daemon(config=(clients.TOP / "examples/pipeline.yml").read_text()))

    def run_example(self, name):
        shutil.copy(clients.TOP / "examples" / name, self.folder)
        done = subprocess.run(["node", name], cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT, check=False,
                              env=environment(HANDOFF_API_URL=self.daemon.api.url, HANDOFF_STATE_DIR=str(self.folder)))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.splitlines()

    def test_ai_sdk(self):
        self.assertEqual(self.run_example("ai_sdk.mjs"), ["Review the retries; I wrote the retries."])

    def test_langgraph(self):
        self.assertEqual(self.run_example("langgraph.mjs"),
                         ["Write the retries: 429 and time-outs are safe to repeat; three retries, with jitter"])

    def test_mastra(self):
        """Its package.json asks for Node.js 22.13; what the example uses runs with 20, too."""
        self.assertEqual(self.run_example("mastra.mjs"), ["Write the retries: Back off, at most three times; "
                                                          "because: The gateway never charges twice"])

    def test_openai_agents(self):
        self.assertEqual(self.run_example("openai_agents.mjs"), ["1 handoff observed", "Review this: Three retries."])
        self.assertIn('handoff_handoffs_total{target_agent="other",pattern="direct",outcome="acknowledged"} 1',
                      self.daemon.web.get("/metrics").text)


if __name__ == "__main__":
    unittest.main()
