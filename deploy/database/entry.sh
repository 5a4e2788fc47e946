#!/bin/sh
# Starts the server of one managed database over the data of its volume, /data. The arguments are the server's settings.
# Before it starts one over data that is not this server's, it ends with a code of its own; agent/src/databases/exit.ts
# says what each means.
set -eu
umask 0077

here=/usr/lib/svc-database
instance=/data/instance

# At most one server per volume, whoever starts it: every process that the server forks keeps the lock open. Without
# --no-fork flock would stay in between and swallow the signal to stop.
if [ "${1-}" != --locked ]; then
  exec flock --nonblock --no-fork --conflict-exit-code 75 /data/lock "$0" --locked "$@"
fi
shift

end() {
  echo "svc: $2" >&2
  exit "$1"
}

engine=$(cat "$here/engine")
verifier=${SVC_DB_VERIFIER-}
init=${SVC_DB_INIT-}
read_only=${SVC_DB_READ_ONLY-}
# Nothing that a session might read is left of them.
unset SVC_DB_VERIFIER SVC_DB_INIT SVC_DB_READ_ONLY

# Has functions for this image's server: initialise, is_ours, serve.
. "$here/engine.sh"

if [ -e "$instance" ]; then
  [ "$(cat "$instance/engine" 2>/dev/null)" = "$engine" ] && is_ours "$instance/data" ||
    end 76 "the data is not of $engine, which is what this image has"
elif [ "$init" = 1 ]; then
  [ -n "$verifier" ] || end 78 "there is no verifier of the administrator's password"
  # What a start left that did not get to the end of this: nobody has ever written to it.
  rm -rf /data/new
  mkdir /data/new
  initialise /data/new/data
  echo "$engine" >/data/new/engine
  sync --file-system /data/new
  # All of it is there, or nothing: a power failure leaves no half of it under this name.
  mv --no-target-directory /data/new "$instance"
  sync --file-system /data
else
  end 77 "the data is missing"
fi

serve "$instance/data" "$@"
