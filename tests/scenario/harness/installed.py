# SPDX-License-Identifier: Apache-2.0
"""The copy that `cmake --install` makes, and C programs built against it and nothing else."""

import os
import pathlib
import subprocess
import tempfile

BUILD = os.environ["HANDOFF_BINARY_DIR"]


class Installed:
    """A context manager; `folder` is gone after it."""

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="handoff-installed-")
        self.folder = pathlib.Path(self.temporary.name)
        # the prefix is fixed at configuration, so it is staged, and pkg-config is told where to
        subprocess.run(["cmake", "--install", BUILD], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "DESTDIR": str(self.folder / "stage")})
        self.pc = next(self.folder.rglob("handoff.pc"))
        self.library = self.pc.parent.parent
        return self

    def __exit__(self, *_):
        self.temporary.cleanup()

    def flags(self):
        """What a program compiles and links with."""
        def ask(*words):
            return subprocess.check_output(["pkg-config", *words, "handoff"], text=True, env={
                **os.environ, "PKG_CONFIG_PATH": str(self.pc.parent)}).split()
        prefix = ask("--variable=prefix")[0]
        return ask(f"--define-variable=prefix={self.folder}/stage{prefix}", "--cflags", "--libs")

    def build(self, source, *options):
        """The program of one source, from a folder in which there is nothing else of ours."""
        program = self.folder / pathlib.Path(source).stem
        subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror",
                        *options, source, *self.flags(), "-o", program], cwd=self.folder,
                       check=True)
        return program

    def environment(self):
        return {**os.environ, "LD_LIBRARY_PATH": str(self.library)}
