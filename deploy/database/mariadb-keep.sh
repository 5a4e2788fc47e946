# Part of keep.sh: how MariaDB is followed. The server keeps its log for nobody, only up to what its own settings allow: whoever
# was away for longer finds its newest file gone.

# A replica without a number of its own ends another that has the same. The server's is 1.
prepare_keep() {
  replica_id=$((0x${copy%"${copy#???????}"} + 2))
  names=
}

connection="--no-defaults --socket=/socket/mysqld.sock --user=svc_keeper"

# shellcheck disable=SC2086 # Its words are arguments.
keeper_query() {
  timeout 40 mariadb $connection --connect-timeout=10 --batch --skip-column-names ${2-} --execute="$1"
}

# First the time, then the transactions, then the place: what was acknowledged before the one is in the other.
ask() {
  answer=$(
    keeper_query "SELECT UNIX_TIMESTAMP(), DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%fZ');
      SELECT CONCAT('gtid ', @@gtid_binlog_pos); SHOW BINLOG STATUS"
  ) || return 1
  {
    read -r asked_s asked
    read -r _ gtid
    read -r file offset _
  } <<ANSWER
$answer
ANSWER
  is_number "$asked_s" && is_moment "$asked" && is_log_file "$file" && is_number "$offset" && is_gtid "$gtid" || return 1
  at=$file:$offset word_at=$gtid
  has=1
  [ -n "$receiver" ] || [ ! -e "$log/begun" ] || is_continued
}

# Whether the server still has the newest file that is here, or the one to begin with: sets `has`.
is_continued() {
  newest_log
  [ -n "$newest_file" ] || {
    word_of "$log/from"
    newest_file=$word
  }
  logs=$(keeper_query "SHOW BINARY LOGS") || return 1
  has=
  while read -r name size; do
    if [ "$name" = "$newest_file" ] && is_number "$size"; then has=1; fi
  done <<LOGS
$logs
LOGS
}

# By its name without what is kept of an earlier attempt at it.
newest_log() {
  newest_file=
  for found in "$log"/*.[0-9][0-9][0-9][0-9][0-9][0-9]; do
    [ ! -f "$found" ] || newest_file=${found##*/}
  done
}

# From the file that the server writes to now.
begin_log() {
  write_file "$log/from" "$file"
}

# A file is fetched from its beginning again. What there was of it is kept until there is as much of the new one.
receive() {
  newest_log
  if [ -n "$newest_file" ]; then
    size=$(stat --format=%s "$log/$newest_file")
    kept=0
    [ ! -f "$log/$newest_file.kept" ] || kept=$(stat --format=%s "$log/$newest_file.kept")
    [ "$kept" -ge "$size" ] || mv "$log/$newest_file" "$log/$newest_file.kept"
    first=$newest_file
  else
    word_of "$log/from"
    first=$word
  fi
  # shellcheck disable=SC2086 # Its words are arguments.
  mariadb-binlog $connection --raw --read-from-remote-server --stop-never --stop-never-slave-server-id="$replica_id" \
    --result-file="$log/" "$first" &
  echo $! >/tmp/receiver.pid
  wait $!
}

# What came since the last look is brought to the disk first, of all files that there are since then.
has_position() {
  wanted_file=${1%:*} wanted=${1#*:}
  [ -f "$log/$wanted_file" ] && [ "$(stat --format=%s "$log/$wanted_file")" -ge "$wanted" ] || return 1
  set --
  for found in "$log"/*.[0-9][0-9][0-9][0-9][0-9][0-9]; do
    [ "${found##*/}" \< "${synced-}" ] || set -- "$@" "$found"
  done
  sync --data "$@" && sync "$log" || return 1
  synced=$wanted_file
  if [ -f "$log/$wanted_file.kept" ] &&
    [ "$(stat --format=%s "$log/$wanted_file")" -ge "$(stat --format=%s "$log/$wanted_file.kept")" ]; then
    rm "$log/$wanted_file.kept"
  fi
}

is_written_to() {
  newest_log
  [ -n "$newest_file" ] && [ "$log/$newest_file" -nt "$1" ]
}

# Events there are none: the server is told not to have any. A dump is of one moment as far as rows go, and of several as far as
# tables, routines and users do: when somebody changed any of these meanwhile, it is none. Nor is it one of what was prepared (XA)
# before that moment and is committed after it.
count_definitions() {
  keeper_query "SELECT CAST(SUM(VARIABLE_VALUE) AS UNSIGNED) FROM information_schema.GLOBAL_STATUS
    WHERE VARIABLE_NAME RLIKE '^COM_((CREATE|ALTER|DROP|RENAME)_|TRUNCATE|GRANT|REVOKE|XA_PREPARE)'
      AND VARIABLE_NAME NOT LIKE 'COM_%TEMPORARY_TABLE'"
}

# Whether nothing of the kind is under way: it was counted when it began, and may end meanwhile. What cannot be told from it
# counts as well.
is_calm() {
  busy=$(keeper_query "SELECT COUNT(*) FROM information_schema.PROCESSLIST
    WHERE ID <> CONNECTION_ID() AND COMMAND IN ('Query', 'Execute')
      AND INFO NOT RLIKE '^(SELECT|WITH|INSERT|UPDATE|DELETE|REPLACE|COMMIT|SHOW|SET)\\\\b'") &&
    prepared=$(keeper_query "XA RECOVER") && [ "$busy" = 0 ] && [ -z "$prepared" ]
}

own_schemas="('mysql', 'information_schema', 'performance_schema', 'sys')"

# Asks for $1 of each view that nobody can read any more, since what it is of is gone. Which ones are is told only to who asks for
# something of theirs that takes opening them.
of_unreadable_views() {
  keeper_query "SELECT $1 FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN $own_schemas
    AND TABLE_TYPE = 'VIEW' AND TABLE_ROWS IS NULL AND TABLE_COMMENT <> 'VIEW'" "${2-}"
}

# No dump has them, and no server makes them: each is replaced by another one that cannot be read, so that a log that drops or
# replaces it goes on.
stand_in_for_views() {
  echo "CREATE DATABASE svc_gone; CREATE TABLE svc_gone.t (c int);"
  of_unreadable_views "CONCAT('CREATE SQL SECURITY INVOKER VIEW \`', REPLACE(TABLE_SCHEMA, '\`', '\`\`'), '\`.\`',
    REPLACE(TABLE_NAME, '\`', '\`\`'), '\` AS SELECT * FROM svc_gone.t;')" --raw || return 1
  echo "DROP DATABASE svc_gone;"
}

# Tables whose rows are not of the dump's moment.
count_loose_tables() {
  keeper_query "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN $own_schemas
    AND TABLE_TYPE NOT IN ('VIEW', 'SEQUENCE') AND COALESCE(ENGINE, '') <> 'InnoDB'"
}

# shellcheck disable=SC2086 # Its words are arguments.
make_base() {
  base=$1
  before=$(count_definitions) || return 1
  is_calm || {
    echo "a definition is being changed, or a transaction is prepared"
    return "$changing"
  }
  databases=$(keeper_query "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA
    WHERE SCHEMA_NAME NOT IN $own_schemas ORDER BY 1") || return 1
  case $databases in
    *[!0-9A-Za-z_"$line_end"]*)
      echo "a database has a name that is none of the platform's"
      return 1
      ;;
  esac
  unreadable=$(of_unreadable_views "CONCAT(TABLE_SCHEMA, '.', TABLE_NAME)") || return 1
  set --
  while IFS= read -r view; do
    # The client tells what would break its lines as \n and the like. No name ends with such.
    [ -z "$view" ] || set -- "$@" "--ignore-table=$(printf '%b' "$view")"
  done <<VIEWS
$unreadable
VIEWS
  loose=$(count_loose_tables) || return 1
  [ "$loose" = 0 ] || printf '%s\n' "$loose" >"$base/loose"
  rm -f /tmp/dump.end
  {
    set +e
    mariadb-dump $connection --single-transaction --quick --master-data=2 --gtid --routines --triggers --hex-blob --dump-history \
      --no-tablespaces --default-character-set=utf8mb4 --max-allowed-packet=1G "$@" --databases $databases &
    echo $! >/tmp/base.pid
    wait $! &&
      { [ -z "$unreadable" ] || stand_in_for_views; } &&
      # Some users are there before it is loaded.
      mariadb-dump $connection --replace --system=users
    echo $? >/tmp/dump.end
  } | zstd -1 --quiet --force -o "$base/dump.sql.zst" || return 1
  after=$(count_definitions) || return 1
  # A dump that failed may have done so over a table that was gone by then.
  [ "$after" = "$before" ] || {
    echo "a definition was changed meanwhile, or a transaction prepared"
    return "$changing"
  }
  word_of /tmp/dump.end
  [ "$word" = 0 ] && is_whole_dump "$base/dump.sql.zst"
}

# Where in the log the dump is of is said in its first lines.
finish_base() {
  if [ ! -e "$1/first" ]; then
    zstd --decompress --stdout --quiet "$1/dump.sql.zst" 2>/dev/null | head --bytes=8000 >/tmp/dump.head || :
    file= offset=
    while read -r line; do
      case $line in
        "-- CHANGE MASTER TO MASTER_LOG_FILE='"*"', MASTER_LOG_POS="*)
          [ -z "$file" ] || continue
          file=${line#*MASTER_LOG_FILE=\'}
          file=${file%%\'*}
          offset=${line#*MASTER_LOG_POS=}
          offset=${offset%%;*}
          ;;
      esac
    done </tmp/dump.head
    is_log_file "$file" && is_number "$offset" || {
      give_up_base BASE_FAILED
      return 1
    }
    printf '%s\n' "$file:$offset" >"$1/position"
    printf '%s\n' "$file" >"$1/first"
  fi
  word_of "$1/position"
  is_past "$word"
}

# Whether what is known to be here reaches that place.
is_past() {
  [ -n "$era_covered" ] || return 1
  if [ "${covered_at%:*}" = "${1%:*}" ]; then
    [ "${covered_at#*:}" -ge "${1#*:}" ]
  else
    [ "${1%:*}" \< "${covered_at%:*}" ]
  fi
}

prune_log() {
  for each in "$1"/*.[0-9][0-9][0-9][0-9][0-9][0-9]; do
    [ "${each##*/}" \< "$2" ] || continue
    [ ! -f "$each" ] || rm -f "$each" "$each.kept"
  done
}

is_log_file() {
  case $1 in
    binlog.[0-9][0-9][0-9][0-9][0-9][0-9]) ;;
    *) return 1 ;;
  esac
}

is_gtid() {
  case $1 in
    *[!0-9,-]*) return 1 ;;
  esac
  [ ${#1} -le 200 ]
}
