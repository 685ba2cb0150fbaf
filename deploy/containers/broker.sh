#!/bin/sh
# mosquitto beside a fleet server in another container: waits for the files that the server writes, and has mosquitto
# read them anew when they change, which no other container could tell it.
set -eu
files="/fleet/ca.pem /fleet/server.pem /fleet/server.key /fleet/access.acl /fleet/revoked.crl"

stamp() { # shellcheck disable=SC2086 - several names
    stat -c '%n %Y %s %i' $files 2>/dev/null | tr '\n' ' '
}

broker=
trap '[ -z "$broker" ] || kill -TERM "$broker"; exit 0' TERM INT
for file in $files; do
    until [ -s "$file" ]; do sleep 1 & wait $!; done
done
seen=$(stamp)
mosquitto -c /mosquitto/config/mosquitto.conf &
broker=$!
while kill -0 "$broker" 2>/dev/null; do
    now=$(stamp)
    if [ "$now" != "$seen" ]; then
        kill -HUP "$broker"
        seen=$now
    fi
    sleep 1 &
    wait $!
done
wait "$broker"
