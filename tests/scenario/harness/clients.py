# SPDX-License-Identifier: Apache-2.0
"""The client packages, from the source tree."""

import os
import pathlib
import sys

CLIENTS = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"], "clients")
PYTHON = CLIENTS / "python"
TYPESCRIPT = CLIENTS / "typescript"

sys.path.insert(0, str(PYTHON))
