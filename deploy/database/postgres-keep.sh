# Part of keep.sh: how PostgreSQL is followed. A replication slot has the server keep the log until it is here, up to what
# the server's own settings allow.

prepare_keep() {
  slot=svc_copy_$copy
  export PGOPTIONS="-c search_path=pg_catalog -c statement_timeout=20s" PGCONNECT_TIMEOUT=10
}

keeper_query() {
  timeout 40 psql --no-psqlrc --tuples-only --no-align --field-separator=' ' --quiet --no-password \
    --set=ON_ERROR_STOP=1 --host=/socket --username=svc_keeper --dbname=postgres "$@"
}

# First the time, then the place: what was acknowledged before the one is before the other. What the slot has is on the
# disk here, since whoever receives says so only then. Of a server that does not write, all of the log is on its disk.
ask() {
  answer=$(
    keeper_query \
      --command="SELECT extract(epoch FROM t)::bigint, to_char(t AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM clock_timestamp() t" \
      --command="SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END" \
      --command="SELECT coalesce((SELECT wal_status || ' ' || coalesce(restart_lsn::text, '0/0') FROM pg_replication_slots WHERE slot_name = '$slot' AND slot_type = 'physical'), 'none 0/0') FROM pg_sleep(0.05)"
  ) || return 1
  {
    read -r asked_s asked
    read -r at
    read -r slot_state slot_at
  } <<ANSWER
$answer
ANSWER
  is_number "$asked_s" && is_moment "$asked" && is_place "$at" && is_place "$slot_at" || return 1
  word_at=$at
  has=1
  case $slot_state in
    none | lost) has= ;;
  esac
}

begin_log() {
  if [ "$slot_state" = lost ]; then
    timeout 40 pg_receivewal --drop-slot --slot="$slot" --no-password --host=/socket --username=svc_keeper
  fi
  timeout 40 pg_receivewal --create-slot --if-not-exists --slot="$slot" --no-password --host=/socket --username=svc_keeper
}

receive() {
  pg_receivewal --directory="$log" --slot="$slot" --synchronous --no-loop --no-password --status-interval=10 \
    --host=/socket --username=svc_keeper &
  echo $! >/tmp/receiver.pid
  wait $!
}

# Sets `number` to what a place in the log counts in bytes.
number_of() {
  number=$(((0x${1%/*} << 32) + 0x${1#*/}))
}

has_position() {
  number_of "$1"
  wanted=$number
  number_of "$slot_at"
  [ "$number" -ge "$wanted" ]
}

is_written_to() {
  for found in "$log"/*.partial; do
    [ ! "$found" -nt "$1" ] || return 0
  done
  return 1
}

make_base() {
  pg_basebackup --pgdata="$1" --format=tar --compress=client-zstd:level=1 --wal-method=none --checkpoint=fast \
    --label=svc --no-password --no-sync --host=/socket --username=svc_keeper &
  echo $! >/tmp/base.pid
  wait $! && [ -s "$1/backup_manifest" ]
}

# The end of the manifest says which part of the log the base is no copy without.
finish_base() {
  if [ ! -e "$1/first" ]; then
    tail --bytes=1000 "$1/backup_manifest" >/tmp/manifest
    from= to= timeline=
    while read -r line; do
      case $line in
        *'"Start-LSN": "'*'"End-LSN": "'*)
          [ -n "$from" ] || {
            from=${line#*'"Start-LSN": "'}
            from=${from%%'"'*}
            timeline=${line#*'"Timeline": '}
            timeline=${timeline%%,*}
          }
          to=${line#*'"End-LSN": "'}
          to=${to%%'"'*}
          ;;
      esac
    done </tmp/manifest
    is_place "$from" && is_place "$to" && is_number "$timeline" || {
      give_up_base BASE_FAILED
      return 1
    }
    printf '%s\n' "$to" >"$1/position"
    number_of "$from"
    printf '%08X%08X%08X\n' "$timeline" "$((number >> 32))" "$(((number & 0xFFFFFFFF) >> 20))" >"$1/first"
  fi
  word_of "$1/position"
  # By what is on the disk, and not by what the server has.
  [ -n "$era_covered" ] || return 1
  number_of "$word"
  wanted=$number
  number_of "$covered_at"
  [ "$number" -ge "$wanted" ]
}

# Files of the log are named for their timeline and their place; what became of a timeline is kept.
prune_log() {
  for each in "$1"/????????????????????????; do
    file=${each##*/}
    [ "${file#????????}" \< "${2#????????}" ] || continue
    [ ! -f "$each" ] || rm "$each"
  done
}

is_place() {
  case $1 in
    */*/* | *[!0-9A-F/]* | /* | */) return 1 ;;
    */*) [ ${#1} -le 17 ] ;;
    *) return 1 ;;
  esac
}
