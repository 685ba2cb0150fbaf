#!/bin/sh
# Resolves requirements.lock: lock.sh UV
#
# One list for every extra and for Python 3.10 to 3.13; packages whose newest release has left 3.10 fork by
# marker. No address, no hash of an index and no path gets into it, so that it works behind any mirror.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
new=$(mktemp)
trap 'rm -f "$new"' EXIT
"$1" pip compile --quiet --universal --python-version 3.10 --all-extras --upgrade \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml --output-file "$new"
{
    echo '# Exact versions for every extra on Python 3.10 to 3.13; used as a constraints file by `make setup`.'
    echo '# Written by `make lock`; names no address. Do not edit.'
    cat "$new"
} > requirements.lock
