# Part of entry.sh: what is PostgreSQL's own.
PATH=$PATH:/usr/lib/postgresql/17/bin

# The verifier takes the place of a password, and PostgreSQL stores one as it is. Text is ordered by code points, so no
# other C library orders an index in another way.
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
