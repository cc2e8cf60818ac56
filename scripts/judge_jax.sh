#!/bin/bash
# Random Pallas kernels against JAX's own interpreter: scripts/judge_jax.sh [N] [options of tests/judge/jax_kernels.py].
# PYTHON and PYTHONPATH choose another interpreter and build; the default is .venv and its package.
set -euo pipefail
cd "$(dirname "$0")/.."
count=1500
if [[ "${1:-}" =~ ^[0-9]+$ ]]; then
  count=$1
  shift
fi
exec "${PYTHON:-.venv/bin/python}" tests/judge/jax_kernels.py --kernels "$count" "$@"
