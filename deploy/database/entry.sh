#!/bin/sh
# Starts the server of one managed database over the data of its volume, /data. The arguments are the server's settings.
# With `keep` before them it keeps a copy of a database instead, in the volume /copy (keep.sh); with `prove` it restores
# such a copy into /data, tells what is there, and ends.
# Before it starts a server over data that is not its own, it ends with a code of its own; agent/src/databases/exit.ts says
# what each means.
set -eu
umask 0077

here=/usr/lib/svc-database
instance=/data/instance

end() {
  echo "svc: $2" >&2
  exit "$1"
}

# At most one of these per volume, whoever starts it: every process that it forks keeps the lock open. Without
# --no-fork flock would stay in between and swallow the signal to stop.
if [ "${1-}" != --locked ]; then
  lock=/data/lock
  [ "${1-}" != keep ] || lock=/copy/lock
  exec flock --nonblock --no-fork --conflict-exit-code 75 "$lock" "$0" --locked "$@"
fi
shift

engine=$(cat "$here/engine")
verifier=${SVC_DB_VERIFIER-}
init=${SVC_DB_INIT-}
read_only=${SVC_DB_READ_ONLY-}
restore=${SVC_DB_RESTORE-}
until=${SVC_DB_UNTIL-}
look_every_ms=${SVC_DB_LOOK_MS-}
# Nothing that a session might read is left of them.
unset SVC_DB_VERIFIER SVC_DB_INIT SVC_DB_READ_ONLY SVC_DB_RESTORE SVC_DB_UNTIL SVC_DB_LOOK_MS

# Has functions for this image's server: initialise, is_ours, serve, and those that copies need.
. "$here/engine.sh"
. "$here/copy.sh"

case ${1-} in
  keep)
    shift
    . "$here/engine-keep.sh"
    . "$here/keep.sh"
    keep "$@"
    ;;
  prove)
    shift
    rm -rf /data/new
    restore_copy /data/new "$until" look "$@"
    exit 0
    ;;
esac

if [ -e "$instance" ]; then
  [ "$(cat "$instance/engine" 2>/dev/null)" = "$engine" ] && is_ours "$instance/data" ||
    end 76 "the data is not of $engine, which is what this image has"
elif [ "$init" = 1 ] || [ "$restore" = 1 ]; then
  [ -n "$verifier" ] || end 78 "there is no verifier of the administrator's password"
  # What a start left that did not get to the end of this: nobody has ever written to it.
  rm -rf /data/new
  if [ "$restore" = 1 ]; then
    restore_copy /data/new "$until" settle "$@"
  else
    mkdir /data/new
    initialise /data/new/data
  fi
  echo "$engine" >/data/new/engine
  sync --file-system /data/new
  # All of it is there, or nothing: a power failure leaves no half of it under this name.
  mv --no-target-directory /data/new "$instance"
  sync --file-system /data
else
  end 77 "the data is missing"
fi

serve "$instance/data" "$@"
