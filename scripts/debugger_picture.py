#!/usr/bin/env python3
"""Makes docs/pictures/debugger_notebook.webp: the stepper of a notebook as Chromium shows it."""
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import browser  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import stepper_page  # noqa: E402
import test_stepper  # noqa: E402

import pallasim  # noqa: E402


def main() -> None:
    y, x = np.mgrid[:32, :256].astype(np.float32)
    waves = np.sin(x / 25) * np.cos(y / 6) + 0.9
    with tempfile.TemporaryDirectory() as here, browser.Browser(1180, 960) as b:
        path = pathlib.Path(here) / "logs.capsule"
        pallasim.capture(test_stepper.logs, jnp.asarray(waves), path=path, params="tpu-v5e")
        stepper = pallasim.Stepper(path, checked=True)
        stepper.break_at(test_stepper.LAST, condition="program_id(0) == 2 and program_id(1) == 1").go_on().back()
        b.open(stepper_page.written(stepper_page.widget_of(stepper), pathlib.Path(here) / "page.html"))
        b.picture(ROOT / "docs" / "pictures" / "debugger_notebook.webp", whole=False)
        stepper.close()


if __name__ == "__main__":
    main()
