"""Colours of the page of `pallasim report`: told apart in every kind of colour vision, texts read on every ground, in light and dark."""
import itertools
import pathlib
import re

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STYLE = (ROOT / "trace" / "report" / "style.css").read_text()
KINDS = ("compute", "in", "out", "wait", "sync", "step")

# Machado, Oliveira, Fernandes 2009, severity 1, on linear RGB.
VISIONS = {
    "all cones": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])


def palette(scheme):
    """The variables; what dark does not say is as in light."""
    light, dark = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", part)) for part in re.findall(r":root[^{]*\{([^}]*)\}", STYLE)[:2])
    return light if scheme == "light" else light | dark


def linear(colour):
    c = np.array([int(colour[i:i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    x = XYZ @ np.clip(rgb, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(x > 216 / 24389, np.cbrt(x), (24389 / 27 * x + 16) / 116)
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def difference(p, q):
    """CIEDE2000."""
    (l1, a1, b1), (l2, a2, b2) = p, q
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    g = 1 + (1 - np.sqrt(mean**7 / (mean**7 + 25**7))) / 2
    c1, c2 = np.hypot(a1 * g, b1), np.hypot(a2 * g, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a * g)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = 0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    hue = h1 + h2 if c1 * c2 == 0 else (h1 + turn / 2) % 360
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    t = 1 - 0.17 * np.cos(np.radians(hue - 30)) + 0.24 * np.cos(np.radians(2 * hue)) + 0.32 * np.cos(np.radians(3 * hue + 6)) - 0.2 * np.cos(np.radians(4 * hue - 63))
    dl = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2))
    dc = (c2 - c1) / (1 + 0.045 * chroma)
    dh = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * chroma * t)
    rotation = -2 * np.sqrt(chroma**7 / (chroma**7 + 25**7)) * np.sin(np.radians(60 * np.exp(-(((hue - 275) / 25) ** 2))))
    return np.sqrt(dl**2 + dc**2 + dh**2 + rotation * dc * dh)


def contrast(a, b):
    low, high = sorted(float(XYZ[1] @ linear(c)) for c in (a, b))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("p, q, is_", [((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425), ((50, 2.5, 0), (58, 24, 15), 19.4535), ((50, -1, 2), (50, 0, 0), 2.3669),
                                       ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644), ((2.0776, 0.0795, -1.135), (0.9033, -0.0636, -0.5514), 0.9082)])
def test_the_difference_is_the_published_one(p, q, is_):
    """Pairs of Sharma, Wu, Dalal 2005."""
    assert difference(p, q) == pytest.approx(is_, abs=1e-4)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_are_told_apart(scheme, vision):
    of = palette(scheme)
    seen = {k: lab(VISIONS[vision] @ linear(of[k])) for k in (*KINDS, "cursor", "done", "rule", "panel")}
    beside = [*itertools.combinations((*KINDS, "cursor"), 2), ("compute", "done"), ("compute", "panel"), ("done", "panel")]
    least = min((difference(seen[a], seen[b]), a, b) for a, b in beside)
    assert least[0] > 12, least
    assert difference(seen["done"], seen["rule"]) > 8, "small cells of the grid, which have no frame"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_are_read(scheme):
    of = palette(scheme)
    pairs = [*itertools.product(("text", "dim"), ("page", "panel", "light")), ("text", "mark"), ("on-cursor", "cursor"), ("panel", "text")]
    assert min((contrast(of[a], of[b]), a, b) for a, b in pairs)[0] >= 4.5
    # In slices: black or white, whichever is read better.
    assert min(max(contrast(of[k], "#000000"), contrast(of[k], "#ffffff")) for k in KINDS) >= 4.5
    assert min((contrast(of[k], of["panel"]), k) for k in (*KINDS, "cursor"))[0] >= 3, "and what is drawn is seen on its ground"


def test_still_pictures_have_the_same_colours():
    from pallasim import _still

    of = palette("light")
    assert {k: of[k] for k in KINDS} == _still._COLOURS
    assert all(contrast(_still._COLOURS[k], "#ffffff" if k in _still._WHITE_ON else "#000000") >= 4.5 for k in KINDS if k != "wait")
