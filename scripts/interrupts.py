"""How soon Ctrl-C stops a kernel: scripts/interrupts.py [ROUNDS], seconds from the signal to the next line of the program, per way."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "python"))
import test_interrupt as ways  # noqa: E402


def main() -> int:
    rounds, worst = int(sys.argv[1]) if len(sys.argv) > 1 else 5, 0.0
    for name, (options, call) in ways.WAYS.items():
        took = []
        for _ in range(rounds):
            seconds, lines = ways.interrupted(ways.KERNEL + ways.stopped(options, call))
            if "next True True" not in lines:
                print("\n".join(lines))
                return 1
            took.append(seconds)
        worst = max(worst, *took)
        print(f"{name:12} {rounds} stopped, the next launch right, {' '.join(f'{t:.2f}' for t in took)} s")
    return 0 if worst <= 0.5 else 1


if __name__ == "__main__":
    sys.exit(main())
