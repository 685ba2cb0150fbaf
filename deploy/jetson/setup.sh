#!/bin/sh
# Sets a bare Jetson up: apt's packages, a virtual environment that sees them, the way to CUDA, the service.
#
#   setup.sh [--dry-run] [--venv DIR] [--cuda pycuda|bindings] [--config FILE] [--skip-apt] [--root DIR]
#
# JetPack 6.1 or later; older ones are refused before anything is changed. Repeating it is harmless. The environment
# is a release below /opt/edge-runtime/releases, and `current` names it, as deploy/install.sh has it; with --venv it is
# DIR alone. apt, /opt and the service need root: as another user it calls sudo. --dry-run prints what it would do and
# changes nothing; with --root it looks at the release of the tree below DIR. Never run on hardware yet: see README.md.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
source=$(CDPATH='' cd -- "$here/../.." && pwd)
base=/opt/edge-runtime
venv=
library=pycuda
config=
dry=
apt=yes
root=

# 2026.1 was built from source against CUDA 13.0 and NumPy 2 with Python 3.10 and 3.12; there is no wheel on PyPI.
PYCUDA=2026.1

say() { printf 'setup: %s\n' "$*" >&2; }
refuse() { say "$@"; exit 2; }
help() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0; }

while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) help ;;
        --dry-run) dry=yes ;;
        --skip-apt) apt= ;;
        --venv | --cuda | --config | --root)
            [ $# -ge 2 ] || refuse "$1 needs a value"
            case $1 in
                --venv) venv=$2 ;;
                --cuda) library=$2 ;;
                --config) config=$2 ;;
                --root) root=${2%/} ;;
            esac
            shift
            ;;
        *) refuse "there is no option $1; see $0 --help" ;;
    esac
    shift
done
case $library in
    pycuda | bindings) ;;
    *) refuse "--cuda is pycuda or bindings, not $library" ;;
esac
[ -z "$root" ] || [ -n "$dry" ] || refuse "--root is for --dry-run: nothing can be installed below another root"
if [ -n "$config" ]; then
    absolute=$(readlink -m -- "$(dirname -- "$config")")/$(basename -- "$config")
    for place in "$absolute" "$(readlink -m -- "$config")"; do
        case $place in # ProtectHome= and PrivateTmp= of the unit
            /home/* | /root/* | /run/user/* | /tmp/* | /var/tmp/*)
                refuse "the service does not see $place: put the configuration and what it names into /etc/edge-runtime"
                ;;
        esac
    done
    { [ -f "$config" ] && [ -r "$config" ]; } ||
        refuse "the configuration $config is no file that can be read; edge-runtime config init writes one"
fi

# JetPack first: what is wrong here cannot be mended by anything below.
release=$(sed -n 's/^# R\([0-9]*\) (release), REVISION: \([0-9.]*\),.*/\1.\2/p' "$root/etc/nv_tegra_release" 2>/dev/null || :)
case $release in
    '') refuse "this is no Jetson: $root/etc/nv_tegra_release names no release of L4T" ;;
    [1-9].* | [12][0-9].* | 3[0-5].*) refuse "L4T $release is JetPack 5 or older: flash JetPack 6.1 or later" ;;
    36.[0-3] | 36.[0-3].*) refuse "L4T $release is JetPack 6.0, with TensorRT 8.6: upgrade to JetPack 6.1 or later" ;;
    36.*) cuda=12-6 python=3.10 bindings=12.9.10 ;;
    38.*) cuda=13-0 python=3.12 bindings=13.0.3 ;;
    39.*) cuda=13-2 python=3.12 bindings=13.2.0 ;;
    *) refuse "L4T $release is not known to this script: JetPack 6.1 to 7.2 are" ;;
esac
say "L4T $release: CUDA $cuda, Python $python"

show() { # $1 and the rest as a shell would take them
    printf 'would run:'
    for word; do
        case $word in
            *[!A-Za-z0-9_./:=,+-]* | '') printf " '%s'" "$(printf %s "$word" | sed "s/'/'\\\\''/g")" ;;
            *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
}

run() { if [ -n "$dry" ]; then show "$@"; else "$@"; fi; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        run "$@"
    elif command -v sudo >/dev/null 2>&1; then
        run sudo "$@"
    elif [ -n "$dry" ]; then
        show sudo "$@"
    else
        refuse "this needs root, and there is no sudo: run $0 as root"
    fi
}

first_known() { # the first of some packages that apt knows; the first one where apt cannot be asked
    for package; do
        if apt-cache show "$package" >/dev/null 2>&1; then printf %s "$package"; return; fi
    done
    printf %s "$1"
}

if [ -n "$apt" ]; then
    as_root apt-get update
    set -- python3-venv python3-libnvinfer libnvonnxparsers10 "cuda-nvrtc-$cuda" \
        "$(first_known libopencv-python python3-opencv)" python3-gi gir1.2-gst-plugins-base-1.0 \
        gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-bad \
        gstreamer1.0-libav nvidia-l4t-gstreamer
    if [ "$library" = pycuda ]; then # its source build, and the compiler of its kernels
        set -- "$@" build-essential python3-dev "cuda-nvcc-$cuda" "cuda-cudart-dev-$cuda" \
            "cuda-profiler-api-$cuda" "libcurand-dev-$cuda"
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
fi

# apt's modules are built for the system's Python, and no other may be used.
if [ -z "$dry" ]; then
    have=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    [ "$have" = "$python" ] || refuse "/usr/bin/python3 is Python $have, and TensorRT of L4T $release is for $python"
fi
if [ -n "$venv" ]; then
    in_use=$venv
else
    version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$source/edge_runtime/__init__.py")
    digest=$(find "$source/edge_runtime" "$source/pyproject.toml" "$source/requirements.lock" -type f ! -name '*.pyc' \
        -exec sha256sum {} + | LC_ALL=C sort | sha256sum | cut -c 1-12)
    release_name=jetson-$version-$digest
    venv=$base/releases/$release_name
    in_use=$base/current
    [ -d "$base/releases" ] || as_root mkdir -p "$base/releases"
fi
if [ -e "$venv/pyvenv.cfg" ]; then
    grep -qi '^include-system-site-packages *= *true' "$venv/pyvenv.cfg" ||
        refuse "$venv does not see apt's packages: remove it, or name another with --venv"
    say "using $venv"
else
    if [ -w "$(dirname -- "$venv")" ] || [ "$(id -u)" -eq 0 ]; then
        run /usr/bin/python3 -m venv --system-site-packages "$venv"
    else
        as_root /usr/bin/python3 -m venv --system-site-packages "$venv"
        as_root chown -R "$(id -u):$(id -g)" "$venv"
    fi
fi

# The versions of the lock, but for NumPy: apt's OpenCV of these releases is built for NumPy 1.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
constraints=$scratch/constraints
grep -v '^numpy==' "$source/requirements.lock" >"$constraints"
echo 'numpy>=1.26,<2' >>"$constraints"
run "$venv/bin/python" -m pip install --constraint "$constraints" "$source[jetson]" onnxruntime numpy
if [ "$library" = pycuda ]; then
    run env CUDA_ROOT=/usr/local/cuda "PATH=/usr/local/cuda/bin:$PATH" \
        "$venv/bin/python" -m pip install --constraint "$constraints" --no-binary pycuda "pycuda==$PYCUDA"
else
    run "$venv/bin/python" -m pip install --constraint "$constraints" --only-binary :all: "cuda-bindings==$bindings"
fi

name_it() { # LINK RELEASE: change what a link names, in one rename
    as_root ln -sfn "releases/$2" "$base/.$1.new"
    as_root mv -fT "$base/.$1.new" "$base/$1"
}
if [ "$in_use" != "$venv" ]; then # as install.sh leaves a release, so that its --back can return to it
    run mkdir -p "$venv/share/doc"
    for page in operations backup deployment; do run cp "$source/docs/$page.md" "$venv/share/doc/"; done
    run touch "$venv/.complete"
    now=
    [ ! -L "$base/current" ] || now=$(basename -- "$(readlink -- "$base/current")")
    if [ "$now" != "$release_name" ]; then
        [ -z "$now" ] || name_it previous "$now"
        name_it current "$release_name"
    fi
fi

if [ -n "$config" ]; then
    awk -v start="ExecStart=$in_use/bin/edge-runtime run $absolute" \
        '/^ExecStart=/ { print start; next } { print }' "$source/deploy/systemd/edge-runtime.service" >"$scratch/unit"
    [ -z "$dry" ] || grep '^ExecStart=' "$scratch/unit"
    as_root install -m 644 "$source/deploy/systemd/sysusers.conf" /usr/lib/sysusers.d/edge-runtime.conf
    as_root systemd-sysusers /usr/lib/sysusers.d/edge-runtime.conf
    as_root install -m 644 "$source/deploy/systemd/udev.rules" /usr/lib/udev/rules.d/60-edge-runtime.rules
    as_root udevadm control --reload
    as_root udevadm trigger --subsystem-match=misc --subsystem-match=watchdog
    as_root install -m 644 "$scratch/unit" /etc/systemd/system/edge-runtime.service
    as_root systemctl daemon-reload
    as_root systemctl enable edge-runtime
    [ -n "$dry" ] || say "the service is enabled; start it with: sudo systemctl start edge-runtime"
fi
if [ -n "$dry" ]; then
    show "$here/check.sh" "$in_use" ${config:+"$config"}
else
    "$here/check.sh" "$in_use" ${config:+"$config"}
fi
