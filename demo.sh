#!/usr/bin/env bash
# Runs one kernel from JAX and from the command line. Installs and builds what is missing first (Debian 12).
. "$(dirname "${BASH_SOURCE[0]}")/scripts/setup.sh"
setup pallasim pallasim_python

echo
say "examples/lesson_01_add_vectors.py: an unmodified Pallas kernel on the emulator"
"$VENV/bin/python" "$ROOT/examples/lesson_01_add_vectors.py"

echo
say "pallasim run tests/pass/add_vectors.psir: the same kernel as a file, without Python"
cd "$ROOT"
"$VENV/bin/pallasim" run tests/pass/add_vectors.psir --fill iota --checked

echo
say "yours: .venv/bin/python (import pallasim) and .venv/bin/pallasim --help"
