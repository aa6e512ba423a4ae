# SPDX-License-Identifier: Apache-2.0
"""compose.yaml and the Dockerfile, as far as can be checked without Docker: the files they name exist, the
programs accept the files mounted for them, and the services can find one another."""

import fnmatch
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

import yaml

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
COMPOSE = yaml.safe_load((TOP / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
DOCKERFILE = (TOP / "Dockerfile").read_text(encoding="utf-8")
AGENT_PORTS = {9001, 9002, 9003, 9004}


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def mounts(service):
    """[(path in the repository or name of a volume, path in the container), ...]"""
    return [volume.split(":")[:2] for volume in SERVICES[service].get("volumes", [])]


def mounted(service, target):
    """The file that the service sees there."""
    return TOP / next(source for source, there in mounts(service) if there == target)


def instructions(name):
    """The arguments of every such instruction of the Dockerfile, its continued lines joined."""
    text = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", DOCKERFILE))
    return [shlex.split(found) for found in re.findall(rf"(?m)^{name} (.*)", text)]


class Compose(unittest.TestCase):
    def test_what_is_mounted_is_there(self):
        for service in SERVICES:
            for source, _ in mounts(service):
                with self.subTest(service=service, source=source):
                    self.assertTrue((TOP / source).exists() if source.startswith("./") else source in COMPOSE["volumes"])

    def test_only_this_machine_reaches_it(self):
        published = [port for service in SERVICES.values() for port in service.get("ports", [])]
        self.assertTrue(published)
        for port in published:
            self.assertRegex(port, r"^127\.0\.0\.1:\d+:\d+$")
        self.assertEqual(len(set(published)), len(published))

    def test_images_have_a_version(self):
        for service in SERVICES.values():
            if "image" in service:
                self.assertRegex(service["image"], r":v?\d+\.\d+\.\d+$")

    def test_the_parts_find_one_another(self):
        exporter = yaml.safe_load(mounted("exporter", "/etc/handoff-exporter/handoff-exporter.yml").read_text())
        urls = [agent["url"] for agent in exporter["agents"].values() if "url" in agent]
        self.assertEqual({int(re.fullmatch(r"http://agents:(\d+)/handoffs", url)[1]) for url in urls}, AGENT_PORTS)
        prometheus = yaml.safe_load(mounted("prometheus", "/etc/prometheus/prometheus.yml").read_text())
        self.assertEqual(prometheus["scrape_configs"][0]["static_configs"][0]["targets"], ["exporter:9780"])
        self.assertEqual(prometheus["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"],
                         ["alertmanager:9093"])
        for path in prometheus["rule_files"]:
            self.assertTrue(mounted("prometheus", path).exists())
        self.assertIn("http://exporter:8780", SERVICES["agents"]["command"])
        self.assertIn("http://pager:9099/pager", mounted("alertmanager", "/etc/alertmanager/alertmanager.yml").read_text())
        self.assertIn("9099", SERVICES["pager"]["command"])
        self.assertEqual(SERVICES["grafana"]["environment"]["HANDOFF_PROMETHEUS_URL"], "http://prometheus:9090")
        for service in SERVICES.values():
            for name in service.get("depends_on", []):
                self.assertIn(name, SERVICES)

    def test_the_programs_accept_what_they_will_read(self):
        self.assertEqual(run(os.environ["HANDOFFCTL"], "check-config", TOP / "demo/handoff-exporter.yml")[0], 0)
        with tempfile.TemporaryDirectory() as folder:
            text = mounted("prometheus", "/etc/prometheus/prometheus.yml").read_text()
            for source, target in mounts("prometheus"):
                text = text.replace(target, str(TOP / source))
            path = pathlib.Path(folder) / "prometheus.yml"
            path.write_text(text)
            status, output = run("promtool", "check", "config", path)
            self.assertEqual(status, 0, output)
            for source, _ in mounts("alertmanager"):
                shutil.copy(TOP / source, folder)
            status, output = run("amtool", "check-config", pathlib.Path(folder) / "alertmanager.yml")
            self.assertEqual(status, 0, output)

    @unittest.skipUnless(shutil.which("docker-compose"), "docker-compose is not installed; nothing else needs it")
    def test_compose_accepts_it(self):
        status, output = run("docker-compose", "-f", TOP / "compose.yaml", "config", "--quiet")
        self.assertEqual(status, 0, output)


class Dockerfile(unittest.TestCase):
    def test_what_is_copied_is_there_and_not_ignored(self):
        ignored = [line for line in (TOP / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
        copies = [words for words in instructions("COPY") if not words[0].startswith("--from")]
        self.assertTrue(copies)
        for *sources, _ in copies:
            for source in sources:
                self.assertTrue((TOP / source).exists(), source)
                self.assertFalse(any(fnmatch.fnmatch(source, pattern) for pattern in ignored), source)

    def test_stages_that_are_named_exist(self):
        stages = {words[2] for words in instructions("FROM")}
        wanted = {service["build"]["target"] for service in SERVICES.values() if "build" in service}
        wanted |= {words[0].split("=")[1] for words in instructions("COPY") if words[0].startswith("--from")}
        self.assertLessEqual(wanted, stages)

    def test_nothing_that_ships_runs_as_root(self):
        for stage in re.split(r"(?m)^FROM ", DOCKERFILE)[1:]:
            if " AS build" not in stage.splitlines()[0]:
                self.assertRegex(stage, r"(?m)^USER (?!root|0)\w+$")

    def test_agents_and_pager_need_nothing_but_python(self):
        copied = {pathlib.Path(source).stem for words in instructions("COPY") for source in words
                  if source.startswith("demo/")}
        for name in copied:
            text = (TOP / f"demo/{name}.py").read_text()
            for module in re.findall(r"(?m)^import (\w+)", text):
                self.assertFalse((TOP / f"demo/{module}.py").exists() and module not in copied, module)
            self.assertNotRegex(text, r"(?m)^import (yaml|requests)")

    def test_the_options_of_the_entry_point_exist(self):
        options = re.findall(r'"(--[\w.-]+)=', DOCKERFILE.split("ENTRYPOINT")[1].splitlines()[0])
        help_text = run(os.environ["HANDOFF_EXPORTER"], "--help")[1]
        self.assertTrue(options)
        for option in options:
            self.assertIn(option, help_text)


if __name__ == "__main__":
    unittest.main()
