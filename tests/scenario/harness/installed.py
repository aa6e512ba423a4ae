# SPDX-License-Identifier: Apache-2.0
"""The copy that `cmake --install` makes, and C programs built against it and nothing else."""

import os
import pathlib
import subprocess
import tempfile

BUILD = os.environ["HANDOFF_BINARY_DIR"]


class Installed:
    """A context manager; `folder` is gone after it.

    package    which programs are built with, by the name that pkg-config knows
    component  what is installed; None: everything
    """

    def __init__(self, package="handoff", component=None):
        self.package = package
        self.component = ["--component", component] if component else []

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="handoff-installed-")
        self.folder = pathlib.Path(self.temporary.name)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", self.folder / "prefix", *self.component],
                       check=True, stdout=subprocess.DEVNULL)
        self.pc = next(self.folder.rglob(f"{self.package}.pc"))
        self.library = self.pc.parent.parent
        return self

    def __exit__(self, *_):
        self.temporary.cleanup()

    def flags(self, *options):
        """What a program compiles and links with."""
        return subprocess.check_output(
            ["pkg-config", "--cflags", "--libs", *options, self.package], text=True,
            env={**os.environ, "PKG_CONFIG_PATH": str(self.pc.parent)}).split()

    def build(self, source, *options):
        """The program of one source, from a folder that has nothing else of the project."""
        program = self.folder / pathlib.Path(source).stem
        subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror",
                        *options, source, *self.flags(), "-o", program], cwd=self.folder,
                       check=True)
        return program

    def environment(self):
        return {**os.environ, "LD_LIBRARY_PATH": str(self.library)}
