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

# Under the lock nobody else runs here: what a killed server left of process ids would only be taken for somebody's.
serve() {
  data=$1
  shift
  rm -f "$data/postmaster.pid" /socket/.s.PGSQL.5432 /socket/.s.PGSQL.5432.lock
  exec postgres -D "$data" "$@" -c listen_addresses= -c unix_socket_directories=/socket -c "hba_file=$here/pg_hba.conf"
}
