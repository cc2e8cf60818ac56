"""`python -m pallasim` is the program `pallasim`, and what of it is Python's: `eval`."""
from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Becomes the command-line program, with the arguments of this process."""
    if sys.argv[1:2] == ["eval"]:
        from pallasim import _eval_cli

        sys.exit(_eval_cli.main(sys.argv[2:]))
    from pallasim import _program

    try:
        program = _program.path()
    except FileNotFoundError as e:
        sys.exit(f"error: {e}")
    os.execve(program, [program, *sys.argv[1:]], _program.environment())


if __name__ == "__main__":
    main()
