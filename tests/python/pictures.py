"""Pictures of arrays for tests: PNG files, cell by cell."""
from __future__ import annotations

import base64
import struct
import zlib

import numpy as np


class Picture:
    """A file whose cells are `cell` points wide and high. `cells`: an array of points (rows, columns, height, width, red green blue alpha)."""

    def __init__(self, png: bytes, cell: int):
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        at, chunks = 8, {}
        while at < len(png):
            size, kind = struct.unpack(">I4s", png[at:at + 8])
            data = png[at + 8:at + 8 + size]
            assert zlib.crc32(kind + data) == struct.unpack(">I", png[at + 8 + size:at + 12 + size])[0]
            chunks[kind] = chunks.get(kind, b"") + data
            at += 12 + size
        self.width, self.height, depth, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
        assert (depth, kind) == (8, 3)
        rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(self.height, self.width + 1)
        assert (rows[:, 0] == 0).all()
        colours = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
        alpha = np.full(len(colours), 255, np.uint8)
        clear = np.frombuffer(chunks.get(b"tRNS", b""), np.uint8)
        alpha[:len(clear)] = clear
        points = np.concatenate([colours, alpha[:, None]], 1)[rows[:, 1:]]
        self.rows, self.columns = self.height // cell, self.width // cell
        self.cells = points.reshape(self.rows, cell, self.columns, cell, 4).swapaxes(1, 2)

    @staticmethod
    def of_url(url: str, cell: int) -> Picture:
        return Picture(base64.b64decode(url.partition(",")[2]), cell)

    def colour(self, row: int, column: int) -> tuple[int, ...]:
        """Of a cell that has one alone."""
        points = self.cells[row, column].reshape(-1, 4)
        assert (points == points[0]).all()
        return tuple(map(int, points[0][:3]))


def marks(p: Picture) -> np.ndarray:
    """What each cell is marked as: by its pattern, "" for a colour."""
    def of(cell):
        n = len(cell)
        if (cell[..., 3] == 0).all():
            return "nothing"
        if (cell == cell[0, 0]).all():
            return ""
        grey = {tuple(map(int, c[:3])) for c in cell.reshape(-1, 4)}
        if grey == {(128, 128, 128), (255, 255, 255)}:
            return "undefined"
        if grey == {(0, 0, 0), (255, 255, 255)}:
            cross = all(cell[i, i, 0] == 255 and cell[i, n - 1 - i, 0] == 255 for i in range(n))
            return "nan" if cross and (cell[..., 0] == 0).any() and cell[0, n // 2, 0] == 0 else "infinite"
        raise AssertionError(grey)

    return np.array([[of(c) for c in row] for row in p.cells])
