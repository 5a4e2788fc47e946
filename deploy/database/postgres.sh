# Part of entry.sh: what is PostgreSQL's own.
PATH=$PATH:/usr/lib/postgresql/17/bin

# The verifier takes the place of a password, and PostgreSQL stores one as it is. Text is ordered by code points, so no
# other C library orders an index in another way. keep.sh counts on the size of the log's files.
initialise() {
  printf '%s\n' "$verifier" >/tmp/verifier
  initdb --pgdata="$1" --username=svc_admin --pwfile=/tmp/verifier --auth=scram-sha-256 \
    --encoding=UTF8 --locale-provider=builtin --builtin-locale=C.UTF-8 --locale=C.UTF-8 \
    --data-checksums --wal-segsize=1 --no-sync --no-instructions >/dev/null
  rm /tmp/verifier
}

is_ours() {
  [ "$(cat "$1/PG_VERSION" 2>/dev/null)" = 17 ]
}

# Tables that no log has end with the standby: the server empties them when it next begins to write.
has_unlogged() {
  for fork in "$1"/base/*/*_init; do
    if [ -e "$fork" ]; then return 0; fi
  done
  return 1
}

# As arguments: a standby does not start with less than what its log was written under, which another plan may have had.
written_under() {
  LC_ALL=C pg_controldata "$1" | while IFS=: read -r name value; do
    case $name in
      "max_connections setting" | "max_worker_processes setting" | "max_wal_senders setting")
        printf -- '-c %s=%d ' "${name% setting}" "${value##* }" ;;
    esac
  done
}

# Nobody can make a standby of nobody write, by whatever right. It leaves no timeline of its own: the next start without
# the file goes on with the log where it ended.
stand_by() {
  : >"$1/standby.signal"
  written_under "$1"
}

# Under the lock nobody else runs here: what a killed server left of process ids would only be taken for somebody's.
serve() {
  data=$1
  shift
  rm -f "$data/postmaster.pid" /socket/.s.PGSQL.5432 /socket/.s.PGSQL.5432.lock "$data/standby.signal"
  standby=
  if [ "$read_only" = 1 ] && ! has_unlogged "$data"; then standby=$(stand_by "$data"); fi
  # shellcheck disable=SC2086 # Its words are arguments.
  exec postgres -D "$data" "$@" $standby -c listen_addresses= -c unix_socket_directories=/socket -c "hba_file=$here/pg_hba.conf"
}

# Makes $3 of the base $1 and the log $2, of that as much as the moment says. The server's settings follow.
restore_base() {
  from=$1 log=$2 data=$3
  shift 3
  mkdir "$data"
  # How that ends is not asked: every byte is compared with what the server said that there is.
  zstd --decompress --stdout --quiet "$from/base.tar.zst" | tar --extract --directory "$data" || :
  cp "$from/backup_manifest" "$data/backup_manifest"
  pg_verifybackup --quiet --exit-on-error --no-parse-wal "$data" || return 1
  # The server may have been one that does not write.
  rm -f "$data/backup_manifest" "$data/standby.signal"
  : >"$data/recovery.signal"
  if [ -n "$moment" ]; then
    recover -c "recovery_target_time=${moment%Z}+00" -c recovery_target_action=promote "$@" && is_up=1 || is_up=
    if [ -z "$is_up" ]; then
      # Nothing was committed after that moment, and the copy is known to have it: it is as of the log's end.
      case $(cat /tmp/private.log) in
        *"before configured recovery target"*) recover "$@" || return 1 ;;
        *) return 1 ;;
      esac
    fi
  else
    is_up=
    recover "$@" || return 1
  fi
  # Where a moment was come to, nothing can be missing before it.
  if [ -z "$is_up" ] && [ -n "$known" ] && [ "$(query "SELECT pg_current_wal_lsn() >= '$known'")" != t ]; then
    echo "svc: the log ends before $known" >&2
    return 1
  fi
  "$then" || return 1
  read -r pid <"$data/postmaster.pid"
  kill -INT "$pid"
  end_private
}

# Starts the server over what was unpacked, until it has read the log and is one that writes. Nothing is written through to
# the disk before all of it is: a power failure leaves nothing of this anyway.
recover() {
  echo "local all all trust" >/tmp/hba
  begin_private postgres -D "$data" "$@" -c listen_addresses= -c unix_socket_directories=/tmp -c hba_file=/tmp/hba \
    -c hot_standby=off -c fsync=off -c summarize_wal=off -c log_min_messages=fatal -c restart_after_crash=off \
    -c "restore_command=cp $log/%f %p 2>/dev/null || cp $log/%f.partial %p 2>/dev/null"
  until [ "$(query "SELECT 1" 2>/dev/null)" = 1 ]; do
    if has_ended; then
      cat /tmp/private.log >&2
      return 1
    fi
    sleep 0.1
  done
}

client() {
  psql --no-psqlrc --tuples-only --no-align --field-separator=' ' --quiet --no-password --set=ON_ERROR_STOP=1 \
    --host=/tmp --username=svc_admin "$@"
}

query() {
  client --dbname=postgres --command="$1"
}

# The administrator's password is the one that is known today, whatever it was then.
settle() {
  case $verifier in
    *[!0-9A-Za-z+/=:\$-]*) end 78 "the verifier of the administrator's password is no SCRAM verifier" ;;
  esac
  # As input: arguments are told to whoever lists processes.
  client --dbname=postgres <<SQL
ALTER ROLE svc_admin PASSWORD '$verifier';
SQL
}

# Tells what is there: every table of the tenant's database is read to its end. Names are in hexadecimal digits.
look() {
  database=$(query "SELECT datname FROM pg_database WHERE datname ~ '^d_[0-9a-f]{16}\$' ORDER BY 1 LIMIT 1") || return 1
  echo "moment $(restored_moment)"
  [ -n "$database" ] || {
    echo "bytes 0"
    return 0
  }
  echo "bytes $(query "SELECT pg_database_size('$database')")" || return 1
  client --dbname="$database" <<'SQL'
SET search_path = pg_catalog;
-- The tenant may have set these for everybody in that database.
SET statement_timeout = 0;
SET transaction_timeout = 0;
SELECT format('SELECT ''table'', %L, %L, count(*) FROM ONLY %I.%I',
              encode(convert_to(n.nspname, 'UTF8'), 'hex'), encode(convert_to(c.relname, 'UTF8'), 'hex'), n.nspname, c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
ORDER BY pg_relation_size(c.oid) DESC, c.oid
LIMIT 2000
\gexec
SQL
}
