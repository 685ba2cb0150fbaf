#!/bin/sh
# Mutation testing of the guard and its motion gate: mutation.sh PYTHON OUT TESTS..., all modules or $MODULES
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
        --constraint "$root/requirements.lock" mutmut pytest hypothesis cryptography
fi

cd "$root"
rm -rf "$out/copy"
mkdir -p "$out/copy/docs" "$out/copy/tests"
# Of all modules those are changed that `make guard-coverage` looks at; the others are there to be imported.
cp -R edge_runtime "$out/copy"
cp -R tests/rigs "$out/copy/tests"
for test in "$@"; do
    mkdir -p "$out/copy/$(dirname "$test")"
    cp "$test" "$out/copy/$test"
done
cp tests/guard/coverage.ini "$out/copy"
cp docs/safety.md "$out/copy/docs"
printf '[mutmut]\nsource_paths = edge_runtime\n' > "$out/copy/setup.cfg"
# shellcheck disable=SC2086 a list of modules, or nothing for all
exec "$out/venv/bin/python" tests/guard/mutants.py "$out/copy" ${MODULES:-}
