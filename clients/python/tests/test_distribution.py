"""What is published."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

FOLDER = Path(__file__).parent.parent


def test_the_wheel_holds_the_typed_package_and_its_readme(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([*command, str(tmp_path)], cwd=FOLDER, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("mailroom_client-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(name).name for name in archive.namelist() if "dist-info" not in name}
        sources = (FOLDER / "src/mailroom_client").iterdir()
        assert names == {each.name for each in sources if each.is_file()}
        assert "py.typed" in names
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        assert "# mailroom-client" in archive.read(metadata).decode()
