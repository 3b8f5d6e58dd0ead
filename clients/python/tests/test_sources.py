"""The formatting, the lints and the types of this package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "format", "--check", "--no-cache", "."],
        ["ruff", "check", "--no-cache", "."],
        ["mypy", "--cache-dir=/dev/null", "src", "tests"],
    ],
    ids=" ".join,
)
def test_nothing_is_found_by(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
