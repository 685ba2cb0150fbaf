#!/bin/sh
# Checks a Jetson that setup.sh has set up: check.sh [VENV] [CONFIG]
#
# Exit code 0: all is well. 1: the doctor found something missing, or the self test failed. 2: cannot be run.
# Needs no root. Never run on hardware yet: see README.md.
set -eu

case ${1:-} in
    -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) printf 'check: there is no option %s; see %s --help\n' "$1" "$0" >&2; exit 2 ;;
esac

venv=${1:-/opt/edge-runtime/current}
config=${2:-}
worst=0

say() { printf 'check: %s\n' "$*" >&2; }

if [ ! -x "$venv/bin/edge-runtime" ]; then
    say "there is no $venv/bin/edge-runtime: run setup.sh, or name the environment"
    exit 2
fi
if [ -n "$config" ]; then
    "$venv/bin/edge-runtime" config check "$config" || exit 2
fi

say "the doctor"
"$venv/bin/edge-runtime" doctor ${config:+"$config"} || worst=$?

# TensorRT imports, CUDA opens, and memory goes to the GPU and comes back as it was.
say "the self test"
"$venv/bin/python" - <<'PYTHON' || worst=1
import sys

import numpy as np

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.perception.backends.tensorrt._cuda import open_cuda

try:
    import tensorrt
except ImportError as error:
    sys.exit(f"tensorrt cannot be imported: {error}")
try:
    cuda = open_cuda()
except EdgeRuntimeError as error:
    sys.exit(f"CUDA does not open: {error}")
sent, back = cuda.allocate_host(1 << 20), cuda.allocate_host(1 << 20)
place, stream = cuda.allocate(1 << 20), cuda.create_stream()
sent[:] = np.arange(1 << 20, dtype=np.uint8)
cuda.copy_in(place, sent, stream)
cuda.copy_out(back, place, stream)
cuda.synchronize(stream)
same = bool(np.array_equal(sent, back))
cuda.destroy_stream(stream)
cuda.free(place)
cuda.free_host(sent)
cuda.free_host(back)
name, library = cuda.device_name, cuda.library
cuda.close()
print(f"TensorRT {tensorrt.__version__}, {library}, {name}: {'well' if same else 'a copy came back changed'}")
sys.exit(not same)
PYTHON

if [ "$worst" -eq 0 ]; then say "all is well"; else say "not well: see above"; fi
exit "$worst"
