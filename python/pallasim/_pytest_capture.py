"""`pytest --pallasim-capture DIR`: a capsule for each test that runs a kernel. The folder is what `pallasim suite` takes."""
from __future__ import annotations

import pathlib
from typing import Any

from ._pytest_item import folder_name


class Captured:
    """The launches of one test, its fixtures' among them."""

    def __init__(self, folder: pathlib.Path, nodeid: str, max_bytes: int) -> None:
        from . import Recording

        self.file = folder / f"{folder_name(nodeid)}.capsule"
        self.saved = False
        self._recording = Recording(max_bytes)

    def begin(self, params: Any) -> None:
        self._recording.params = params
        self._recording.__enter__()

    def stopped(self, error: BaseException) -> None:
        """An error leaves the test: a kernel that was refused is a launch without arrays."""
        self._recording.refused(error)

    def end(self) -> None:
        """Writes the capsule, if there is something in it. What an earlier session wrote of the test goes."""
        self._recording.stop()
        if self._recording.launches:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._recording.save(self.file)
            self.saved = True
        else:
            self.file.unlink(missing_ok=True)
        self._recording.launches = []  # the arrays
