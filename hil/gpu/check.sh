#!/bin/sh
# Checks everything of this runtime that needs a real GPU, in under ten minutes: hil/gpu/check.sh [--out DIR] [...]
#
# PYTHON names the interpreter; without it that of .venv is taken, then python3. OUT is the folder of the results.
# Exit codes: 0 nothing failed and the kernel ran on a GPU, 1 a check failed, 2 wrong usage, 3 the kernel did not run
# on a GPU, 130 interrupted. hil/README.md has the checks.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)

python=${PYTHON:-$root/.venv/bin/python}
if [ -z "${PYTHON:-}" ] && [ ! -x "$python" ]; then python=python3; fi

PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" exec "$python" -m hil.gpu.check --out "${OUT:-$root/out/hil-gpu}" "$@"
