#!/bin/sh
# Installs or upgrades a fleet server or a device, goes back to the version before, and removes it.
#
#   install.sh server|device SOURCE [--check] [--dest DIR] [--no-backup]
#   install.sh server|device --back [--check] [--dest DIR]
#   install.sh server|device --remove [--check] [--dest DIR]
#
# SOURCE is a wheel of this project or a checkout of it. What else it needs comes in the versions of requirements.lock,
# which lies in the checkout, beside the wheel, or in the tree of this script. Each version has a virtual environment of its own below
# /opt/<name>/releases; `current` names the one in force and `previous` the one before, and changing them is one
# rename. Each version keeps its units, rules and folders beside it, so that going back takes those back as well.
# Repeating it is harmless. A server is backed up before its program changes. --remove leaves data, configuration,
# backups and the user. --check says what would be done and changes nothing; --dest puts everything below DIR and
# leaves the service manager alone. PYTHON names the interpreter; how pip reaches its packages is pip's own
# configuration (PIP_INDEX_URL, PIP_FIND_LINKS, ...).
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
role='' source='' check='' dest='' back='' remove='' backup=yes

say() { printf 'install: %s\n' "$*" >&2; }
refuse() { say "$*"; exit 2; }
usage() { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" | sed '$d'; }

while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        --check) check=yes ;;
        --back) back=yes ;;
        --remove) remove=yes ;;
        --no-backup) backup= ;;
        --dest)
            [ $# -gt 1 ] || refuse "--dest needs a value"
            dest=$2
            shift
            ;;
        -*) refuse "there is no option $1; see install.sh --help" ;;
        *)
            if [ -z "$role" ]; then role=$1
            elif [ -z "$source" ]; then source=$1
            else refuse "one SOURCE, not also $1"
            fi
            ;;
    esac
    shift
done

case $role in
    server)
        name=fleet-server program=fleet extras=server data=/data
        units="fleet-server.service fleet-backup.service fleet-backup.timer"
        files=$here/server other=edge-runtime
        ;;
    device)
        name=edge-runtime program=edge-runtime extras=device data='' units=edge-runtime.service
        files=$here/systemd other=fleet-server
        ;;
    *) refuse "say server or device first; see install.sh --help" ;;
esac
case $dest in
    '' | /*) ;;
    *) refuse "--dest $dest: give a path that begins with /" ;;
esac
base=$dest/opt/$name
data=$dest/var/lib/$name$data # a server's directory is made beside its place, so it lies in a folder of its user

would() { # run it, or say it
    if [ -n "$check" ]; then printf 'would run: %s\n' "$*"; else "$@"; fi
}

target_of() { # the release that a link names, or nothing
    if [ -L "$base/$1" ]; then basename -- "$(readlink -- "$base/$1")"; fi
}

name_it() { # LINK RELEASE: change what a link names, in one rename
    if [ -n "$check" ]; then
        printf 'would run: %s -> %s\n' "$base/$1" "releases/$2"
        return
    fi
    ln -sfn "releases/$2" "$base/.$1.new"
    mv -fT "$base/.$1.new" "$base/$1"
}

managed() { [ -z "$dest" ]; } # whether the service manager of this machine has to hear of it

each_file() { # COMMAND: called with each file that the system reads, and where it belongs
    for unit in $units; do "$1" "$files/$unit" "/usr/lib/systemd/system/$unit" || return 1; done
    "$1" "$files/sysusers.conf" "/usr/lib/sysusers.d/$name.conf" || return 1
    "$1" "$files/tmpfiles.conf" "/usr/lib/tmpfiles.d/$name.conf" || return 1
    [ ! -f "$files/udev.rules" ] || "$1" "$files/udev.rules" "/usr/lib/udev/rules.d/60-$name.rules" || return 1
    "$1" "$here/systemd/journald.conf" /usr/lib/systemd/journald.conf.d/edge-fleet.conf
}

keep() { # FILE TARGET: a copy beside the version, for the day on which it is in force again
    would install -D -m 644 "$1" "$place/share/root$2"
}

put() { # FILE TARGET: only where it differs
    cmp -s "$1" "$dest$2" || would install -D -m 644 "$1" "$dest$2"
}

put_kept() { # FILE TARGET: as the version in $kept has it, which may be not at all
    if [ -f "$kept$2" ]; then put "$kept$2" "$2"; elif [ -d "$kept" ]; then would rm -f "$dest$2"; fi
}

adopt() { # FILE TARGET: what is there belongs to the version in force, which an older script put there
    [ ! -f "$dest$2" ] || install -D -m 644 "$dest$2" "$base/releases/$now/share/root$2"
}

tell() { # have the system read its files anew
    managed || return 0
    would systemd-sysusers "$name.conf" && would systemd-tmpfiles --create "$name.conf" || return 1
    would systemctl daemon-reload || return 1
    would systemctl try-restart systemd-journald.service || say "journald reads its bounds when it starts next"
    if [ "$role" = device ] && command -v udevadm >/dev/null 2>&1; then
        would udevadm control --reload && would udevadm trigger --subsystem-match=misc --subsystem-match=watchdog ||
            say "udev did not answer: the rule for the watchdog holds from the next boot on"
    fi
}

restart() { # only what runs already; a service that does not come up is a failure
    managed || return 0
    would systemctl try-restart "$name.service"
}

in_force() { # RELEASE: have the system be as this version says; fails where a step does
    kept=$base/releases/$1/share/root
    if [ -n "$check" ] && [ ! -d "$kept" ]; then each_file put; else each_file put_kept; fi &&
        tell && name_it current "$1" && restart
}

now=$(target_of current)
before=$(target_of previous)

if [ -z "$dest" ] && [ -z "$check" ]; then
    [ "$(id -u)" -eq 0 ] || refuse "this needs root; --check says what it would do without"
    command -v systemctl >/dev/null 2>&1 || refuse "this machine has no systemd; --dest DIR installs without it"
fi

if [ -n "$remove" ]; then
    [ -z "$source$back" ] || refuse "--remove takes no SOURCE and no --back"
    taken=
    take() { # FILE TARGET: away, but for what the other program on this machine needs as well
        case $2 in */edge-fleet.conf) [ ! -e "$dest/opt/$other/current" ] || return 0 ;; esac
        [ -e "$dest$2" ] || return 0
        taken=yes
        would rm -f "$dest$2"
    }
    if managed; then # what is not loaded cannot be disabled, and need not be
        for unit in $units; do would systemctl disable --now "$unit" 2>/dev/null || :; done
    fi
    each_file take
    [ ! -e "$base" ] || taken=yes
    would rm -rf "$base"
    if managed; then
        would systemctl daemon-reload
        [ "$role" = server ] || ! command -v udevadm >/dev/null 2>&1 || would udevadm control --reload || :
    fi
    if [ -n "$check" ]; then say "nothing was changed"
    elif [ -z "$taken" ]; then say "nothing of $name is installed"
    else
        say "$name is removed; its data in /var/lib/$name, /etc/$name, backups and the user $name are kept"
    fi
    exit 0
fi

if [ -n "$back" ]; then
    [ -z "$source" ] || refuse "--back takes no SOURCE"
    [ -n "$before" ] || refuse "there is no version before ${now:-this one} in $base"
    [ -f "$base/releases/$before/.complete" ] || refuse "$base/releases/$before is not whole: install it again"
    name_it previous "$now"
    in_force "$before" || { say "$before does not come up either: journalctl -u $name"; exit 1; }
    [ -n "$check" ] || say "$name is $before again; $now is kept"
    exit 0
fi

[ -n "$source" ] || refuse "say what to install: a wheel or a checkout of this project"
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1 ||
    refuse "$python is no Python 3.10 to 3.13; name one with PYTHON="
"$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
    refuse "$python makes no virtual environments: apt install python3-venv, or name another with PYTHON="
case $source in
    *.whl)
        [ -f "$source" ] || refuse "$source is no file"
        version=$(basename -- "$source" | sed -n 's/^edge_fleet_runtime-\([0-9][0-9A-Za-z.+]*\)-.*\.whl$/\1/p')
        lock=$(dirname -- "$source")/requirements.lock
        [ -f "$lock" ] || lock=$here/../requirements.lock
        source=$(CDPATH='' cd -- "$(dirname -- "$source")" && pwd)/$(basename -- "$source")
        contents() { sha256sum <"$source"; }
        ;;
    *)
        [ -f "$source/pyproject.toml" ] || refuse "$source is neither a wheel nor a checkout of this project"
        source=$(CDPATH='' cd -- "$source" && pwd)
        version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$source/edge_runtime/__init__.py" 2>/dev/null || :)
        lock=$source/requirements.lock
        contents() {
            find "$source/edge_runtime" "$source/fleet_server" "$source/pyproject.toml" -type f ! -name '*.pyc' \
                -exec sha256sum {} + 2>/dev/null | LC_ALL=C sort
        }
        ;;
esac
[ -n "$version" ] || refuse "$source is no release of this project"
[ -f "$lock" ] || refuse "requirements.lock is missing: it lies in a checkout, or beside the wheel"
lock=$(CDPATH='' cd -- "$(dirname -- "$lock")" && pwd)/requirements.lock
digest=$({ contents; sha256sum <"$lock"; } | sha256sum | cut -c 1-12)
release=$version-$digest
place=$base/releases/$release

if [ ! -f "$place/.complete" ]; then
    would rm -rf "$place" # what a run that was interrupted left
    would mkdir -p "$base/releases"
    would "$python" -m venv "$place"
    would "$place/bin/python" -m pip install --quiet --disable-pip-version-check \
        --constraint "$lock" "$source[$extras]"
    would "$place/bin/$program" --version # it begins, or nothing is changed
    would mkdir -p "$place/share/doc"
    for page in operations backup deployment; do
        [ ! -f "$here/../docs/$page.md" ] || would cp "$here/../docs/$page.md" "$place/share/doc/"
    done
    would touch "$place/.complete"
fi
if [ -z "$check" ]; then
    if [ -n "$now" ] && [ ! -d "$base/releases/$now/share/root" ]; then each_file adopt; fi
    each_file keep
fi

as_owner() { # files of the server belong to its user, also those that SQLite makes beside its own
    if [ -z "$dest" ]; then would runuser -u "$name" -- "$@"; else would "$@"; fi
}
if [ "$role" = server ] && [ -n "$now" ] && [ "$now" != "$release" ] && [ -n "$backup" ] &&
    [ -f "$data/settings.toml" ]; then
    as_owner "$base/current/bin/fleet" backup create "$dest/var/backups/$name" --data "$data" >&2 || {
        say "no backup could be made, so nothing was changed; --no-backup goes on without"
        exit 1
    }
fi

if [ "$now" = "$release" ]; then
    kept=$place/share/root
    if [ -n "$check" ]; then each_file put; else each_file put_kept; fi
    tell
    say "$name $release is installed"
    exit 0
fi

[ -z "$now" ] || name_it previous "$now"
if ! in_force "$release"; then
    [ -n "$now" ] || { say "$name $release could not be put in force"; exit 1; }
    say "$name $release does not come up: going back to $now"
    if [ -n "$before" ]; then name_it previous "$before"; else rm -f "$base/previous"; fi
    in_force "$now" || say "$now does not come up either: journalctl -u $name"
    exit 1
fi
if [ -n "$check" ]; then
    say "nothing was changed"
    exit 0
fi
for old in "$base/releases"/*; do
    case $(basename -- "$old") in
        "$release" | "$now") ;;
        *) rm -rf "$old" ;;
    esac
done
if [ -n "$now" ]; then
    say "$name is $release now; --back goes back to $now"
elif [ "$role" = server ]; then
    say "$name $release is installed; next: runuser -u $name -- $base/current/bin/fleet init $data --host NAME," \
        "then systemctl enable --now fleet-server fleet-backup.timer"
else
    say "$name $release is installed; next: /etc/edge-runtime/site.yaml, then systemctl enable --now $name"
fi
