#!/bin/sh
# Makes a virtual environment of this checkout: setup.sh VENV [EXTRAS]
#
# Needs only a Python 3.10 to 3.13 on the machine, no root. PYTHON names one on purpose. Repeating it is
# harmless: an environment that exists is brought to what requirements.lock says.
set -eu

venv=$1
extras=${2:-device,models,server,docs,dev}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

say() { printf 'setup: %s\n' "$*" >&2; }

fits() { # whether $1 runs and is a Python that this project supports
    "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

makes_venvs() { # Debian's python3 lacks ensurepip until python3-venv is installed
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

lends_pip() { # pip >= 22.3 can install into an environment that has none
    "$1" -m pip --python "$1" --version >/dev/null 2>&1
}

choose() {
    found=
    for candidate in ${PYTHON:-python3.12 python3.11 python3.13 python3.10 python3 python}; do
        fits "$candidate" || continue
        found=$candidate
        if makes_venvs "$candidate"; then python=$candidate pip_from=ensurepip; return; fi
    done
    for candidate in ${PYTHON:-python3.12 python3.11 python3.13 python3.10 python3 python}; do
        fits "$candidate" && lends_pip "$candidate" || continue
        python=$candidate pip_from=system
        return
    done
    if [ -n "$found" ]; then
        say "$found cannot make a virtual environment because its ensurepip is missing;" \
            "install it (Debian, Ubuntu: apt install python3-venv) or name another: make setup PYTHON=/path/to/python3.12"
    else
        have=$("${PYTHON:-python3}" --version 2>&1) || have="no working ${PYTHON:-python3}"
        say "needs Python 3.10, 3.11, 3.12 or 3.13, and this machine has $have;" \
            "name a fitting one: make setup PYTHON=/path/to/python3.12"
    fi
    exit 2
}

if [ -x "$venv/bin/python" ] && fits "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    say "bringing $venv up to date"
else
    choose
    say "making $venv with $("$python" --version 2>&1)"
    if [ "$pip_from" = ensurepip ]; then
        "$python" -m venv --clear "$venv"
    else
        "$python" -m venv --clear --without-pip "$venv"
        "$python" -m pip --python "$venv/bin/python" install --quiet pip
    fi
fi

say "installing what requirements.lock names; the first time takes a minute or two"

# The lock is a list of constraints: it says which version, the extras say what.
PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -m pip install --quiet \
    --constraint "$root/requirements.lock" --editable "$root[$extras]"

# GStreamer's Python bindings come from the system only (Debian, JetPack); where they were built for the same
# Python, they are linked in, and nothing else of the system is.
suffix=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
bindings=/usr/lib/python3/dist-packages/gi
if [ -e "$bindings/_gi$suffix" ]; then
    ln -sfn "$bindings" "$packages/gi"
    say "linked GStreamer's bindings (gi) from the system"
fi
say "$venv is ready ($extras)"
