#!/bin/sh
# Mutation testing of the guard's state machine: mutation.sh PYTHON OUT TESTS..., all modules or $MODULES
#
# Works on copies in OUT, never on the checkout, in an environment of its own: what makes the mutants brings a
# terminal interface with it that nobody else here needs.
set -eu
python=$1 out=$2
shift 2
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
mkdir -p "$out"
out=$(CDPATH='' cd -- "$out" && pwd)

if [ ! -x "$out/venv/bin/mutmut" ]; then
    "$python" -m venv --clear "$out/venv"
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$out/venv/bin/python" -m pip install --quiet \
        --constraint "$root/requirements.lock" mutmut pytest
fi

cd "$root"
rm -rf "$out/copy"
mkdir -p "$out/copy/edge_runtime/guard" "$out/copy/tests/guard" "$out/copy/tests/rigs" "$out/copy/docs"
cp edge_runtime/__init__.py edge_runtime/errors.py "$out/copy/edge_runtime"
cp edge_runtime/guard/__init__.py "$out/copy/edge_runtime/guard"
# What is changed is what `make guard-coverage` looks at.
for module in $(sed -n 's/^    \(edge_runtime\/guard\/.*\.py\)$/\1/p' tests/guard/coverage.ini); do
    cp "$module" "$out/copy/edge_runtime/guard"
done
cp "$@" "$out/copy/tests/guard"
cp tests/rigs/guard_bodies.py "$out/copy/tests/rigs"
cp docs/safety.md "$out/copy/docs"
printf '[mutmut]\nsource_paths = edge_runtime\n' > "$out/copy/setup.cfg"
# shellcheck disable=SC2086 a list of modules, or nothing for all
exec "$out/venv/bin/python" tests/guard/mutants.py "$out/copy" ${MODULES:-}
