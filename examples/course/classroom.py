"""What the units of the course have in common: their command line, and what an exercise is held to."""
from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

Answer = Callable[..., Any]


def graded(grade: Callable[[Answer], None], answer: Answer) -> str:
    """What the grade says of an answer: "" where it is right. Whatever an answer raises is its own mistake."""
    try:
        grade(answer)
    except Exception as e:  # a kernel's error is a report, which is the best hint there is
        return f"{type(e).__name__}: {e}"
    return ""


def unit(module: ModuleType, arguments: list[str] | None = None) -> int:
    """A unit as a program: what it shows; --grade: whether its `exercise` is right; --solution: whether its `solution` is; --picture FILE: its picture."""
    parser = argparse.ArgumentParser(description=(module.__doc__ or "").splitlines()[0])
    parser.add_argument("--grade", action="store_true", help="grades what the function `exercise` of this file does")
    parser.add_argument("--solution", action="store_true", help="grades the solution, for comparison")
    parser.add_argument("--picture", type=pathlib.Path, metavar="FILE", help="writes the picture, as SVG")
    asked = parser.parse_args(arguments)
    if asked.picture:
        asked.picture.write_text(module.picture())
        return 0
    if asked.grade or asked.solution:
        said = graded(module.grade, module.solution if asked.solution else module.exercise)
        print(said or "right")
        return 1 if said else 0
    module.main()
    return 0


def run() -> None:
    """For the end of a unit's file."""
    sys.exit(unit(sys.modules["__main__"]))
