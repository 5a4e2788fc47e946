# Part of entry.sh: what is MariaDB's own.

line_end='
'

# A copy of what the image was made with. The one user besides the engine's own is added before anybody can connect.
initialise() {
  check_verifier
  lay_data "$1" <<SQL
FLUSH PRIVILEGES;
CREATE USER 'svc_admin'@'localhost' IDENTIFIED BY PASSWORD '$verifier';
GRANT ALL PRIVILEGES ON *.* TO 'svc_admin'@'localhost' WITH GRANT OPTION;
SQL
}

check_verifier() {
  case $verifier in
    *[!*0-9A-F]*) end 78 "the verifier of the administrator's password is no native hash" ;;
  esac
}

# With the statements that are its input.
lay_data() {
  cp --recursive --preserve=mode "$here/data" "$1"
  mkdir "$1/../tmp"
  mariadbd --no-defaults --bootstrap --datadir="$1" --tmpdir=/tmp --log-warnings=0 --innodb-log-file-size=8M
}

is_ours() {
  [ -d "$1/mysql" ]
}

# What clients by the tunnel encrypt with, another one after each start: they know the server by the password. The server
# would make one itself, whose key of RSA takes a second.
make_certificate() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 36500 -subj /CN=svc-database -config /dev/null \
    -keyout /tmp/server.key -out /tmp/server.crt 2>/tmp/openssl.err || {
    cat /tmp/openssl.err >&2
    return 1
  }
}

# Temporary files go to the volume, since /tmp is memory. The directory that plugins would come from, and the only one that
# statements may read files of, is an empty one of the image.
serve() {
  data=$1
  shift
  rm -f /socket/mysqld.sock "${data%/data}/tmp"/*
  make_certificate
  exec mariadbd --no-defaults "$@" --datadir="$data" --tmpdir="${data%/data}/tmp" --skip-networking \
    --ssl-cert=/tmp/server.crt --ssl-key=/tmp/server.key \
    --socket=/socket/mysqld.sock --pid-file=/tmp/mariadbd.pid --plugin-dir="$here/none" --secure-file-priv="$here/none"
}

# Makes $3 of the base $1 and the log $2, of that as much as the moment says. The server's settings follow. Nothing is written
# through to the disk before all of it is: a power failure leaves nothing of this anyway.
restore_base() {
  from=$1 log=$2 data=$3
  shift 3
  [ "$then" != settle ] || check_verifier
  is_whole_dump "$from/dump.sql.zst" || return 1
  read -r secret </proc/sys/kernel/random/uuid
  lay_data "$data" <<SQL || return 1
FLUSH PRIVILEGES;
CREATE USER 'svc_restore'@'localhost' IDENTIFIED BY '$secret';
GRANT ALL PRIVILEGES ON *.* TO 'svc_restore'@'localhost' WITH GRANT OPTION;
SQL
  # Of tables without transactions the dump has a part of what the log says again.
  [ ! -e "$from/loose" ] || set -- "$@" --slave-exec-mode=IDEMPOTENT
  # Programs put aside there what they read of large transactions, for which memory is too small.
  export MYSQL_PWD="$secret" TMPDIR="${data%/data}/tmp"
  gather_log || return 1
  begin_private mariadbd --no-defaults "$@" --datadir="$data" --tmpdir="${data%/data}/tmp" --skip-networking --read-only=OFF \
    --socket=/tmp/private.sock --pid-file=/tmp/private.pid --plugin-dir="$here/none" --secure-file-priv="$here/none" \
    --skip-log-bin --server-id=2 --skip-slave-start --relay-log="$relay/relay" --relay-log-index="$relay/relay.index" \
    --relay-log-purge=OFF --relay-log-recovery=OFF --max-allowed-packet=1G --innodb-flush-log-at-trx-commit=0 --event-scheduler=DISABLED
  until [ "$(query "SELECT 1" 2>/dev/null)" = 1 ]; do
    if has_ended; then
      cat /tmp/private.log >&2
      return 1
    fi
    sleep 0.1
  done
  load || return 1
  "$then" || return 1
  # In the last of its sessions: the server remembers no other user of ours.
  query "DROP USER 'svc_restore'@'localhost'; SHUTDOWN" || return 1
  end_private || return 1
  rm -r "$relay"
  unset MYSQL_PWD TMPDIR
}

# What it is given is the tenant's, and in no log.
client() {
  mariadb --no-defaults --socket=/tmp/private.sock --user=svc_restore --max-allowed-packet=1G --binary-mode \
    --skip-print-query-on-error "$@"
}

query() {
  client --batch --skip-column-names --execute="$1"
}

# Lays the log since the base out in the directory `relay`, under the names that a replica has for what it received. A server
# numbers its files without a gap.
gather_log() {
  relay=$TMPDIR/relay
  mkdir "$relay"
  : >"$relay/relay.index"
  word_of "$from/position"
  first=${word%:*} offset=${word#*:} last= files=0
  for found in "$log"/*.[0-9][0-9][0-9][0-9][0-9][0-9] "$log"/*.[0-9][0-9][0-9][0-9][0-9][0-9].kept; do
    [ -f "$found" ] || continue
    name=${found##*/}
    name=${name%.kept}
    if [ "$name" \< "$first" ] || ! [ "$name" \> "$last" ]; then continue; fi
    [ "$((1${name##*.} - 1${first##*.}))" = "$files" ] || {
      echo "svc: the log has a gap before $name" >&2
      return 1
    }
    last=$name files=$((files + 1))
    # Of a file that was being fetched again there may be more in what was kept of it.
    source=$log/$name
    if [ -f "$source.kept" ] && { [ ! -f "$source" ] || [ "$(stat --format=%s "$source.kept")" -gt "$(stat --format=%s "$source")" ]; }; then
      source=$source.kept
    fi
    newest=$relay/$(printf 'relay.%06d' "$files")
    cp --symbolic-link "$source" "$newest" && echo "$newest" >>"$relay/relay.index" || return 1
  done
  if [ "$files" = 0 ] || [ "$last" \< "${known%:*}" ]; then
    echo "svc: the log ends before ${known:-$first}" >&2
    return 1
  fi
  # The newest goes in without what is only the beginning of an event.
  whole_end "$source" || return 1
  rm "$newest"
  head --bytes="$whole" "$source" >"$newest" || return 1
  [ -z "$moment" ] || cut_log
}

# Ends the log before its first event of the moment's second or a later one: an event knows whole seconds. Files that began then
# have nothing that counts, and of the rest only the newest has such events. What is before the base's place is in the base.
cut_log() {
  until_s=$(TZ=UTC0 mawk -v moment="$moment" 'BEGIN { gsub(/[-T:]/, " ", moment); print mktime(substr(moment, 1, 19)) }') || return 1
  newest=
  for file in "$relay"/relay.[0-9]*; do
    if [ -n "$newest" ]; then
      began_s=$(first_second "$file") || return 1
      [ "$began_s" -lt "$until_s" ] || break
    fi
    newest=$file
  done
  for file in "$relay"/relay.[0-9]*; do
    ! [ "$file" \> "$newest" ] || rm "$file" || return 1
  done
  printf '%s\n' "$relay"/relay.[0-9]* >"$relay/relay.index"
  at=$(first_event_at "$newest") || return 1
  [ -n "$at" ] || return 0
  [ "$newest" != "$relay/relay.000001" ] || [ "$at" -ge "$offset" ] || at=$offset
  head --bytes="$at" "$newest" >"$relay/cut" && mv "$relay/cut" "$newest"
}

# When a log began, in seconds since 1970. Four bytes that are the same in each go before its first event.
first_second() {
  printf '%d\n' "$(od --address-radix=n --format=u4 --endian=little --skip-bytes=4 --read-bytes=4 "$1")"
}

# Where in a log the first event of the moment's second or a later one begins; empty: there is none. An event begins with four
# bytes of its second, one of its type, four of its server, and four of its length.
first_event_at() {
  od --address-radix=n --format=u1 --width=64 --output-duplicates "$1" | mawk -v until="$until_s" '
    BEGIN { skip = 4; at = 4 }
    skip >= NF { skip -= NF; next }
    {
      for (i = skip + 1; i <= NF; i++) {
        if (have < 4) second += $i * 256 ^ have
        else if (have >= 9) length_ += $i * 256 ^ (have - 9)
        if (++have < 13) continue
        if (second >= until) { print at; exit }
        if (length_ < 13) exit 1
        at += length_
        i += length_ - 13
        have = second = length_ = 0
      }
      skip = i - NF - 1
    }'
}

# The dump, and the transactions since.
load() {
  rm -f /tmp/load.failed
  {
    zstd --decompress --stdout --quiet "$from/dump.sql.zst" || : >/tmp/load.failed
  } | client || return 1
  [ ! -e /tmp/load.failed ] || return 1
  replay
}

# As a replica does what it received: event by event, so that no transaction is too large for memory, and nothing that the
# tenant named or wrote is ever read as a statement of ours.
replay() {
  query "CHANGE MASTER TO MASTER_HOST = 'nowhere', MASTER_USE_GTID = no, RELAY_LOG_FILE = 'relay.000001', RELAY_LOG_POS = $offset;
    START SLAVE SQL_THREAD" || return 1
  replayed=
  while [ -z "$replayed" ]; do
    sleep 0.1
    client --vertical --execute="SHOW SLAVE STATUS" >/tmp/replay || return 1
    while read -r name value; do
      case "$name $value" in
        "Slave_SQL_Running: No" | "Last_SQL_Errno: "[!0]*)
          echo "svc: the log could not be read to its end ($name $value)" >&2
          return 1
          ;;
        # What was not committed in it never will be.
        "Slave_SQL_Running_State: Slave has read all relay log;"*) replayed=yes ;;
      esac
    done </tmp/replay
  done
  query "STOP SLAVE SQL_THREAD; RESET SLAVE ALL; SET GLOBAL gtid_slave_pos = ''"
}

# Sets `whole` to where the last whole event of a file ends: whoever received it may have been killed in the middle of one.
# What is known to have been there has to be before that.
whole_end() {
  whole=$(stat --format=%s "$1")
  if ! mariadb-binlog --no-defaults "$1" >/dev/null 2>/tmp/binlog.err; then
    whole=
    while read -r line; do
      case $line in
        *"Could not read entry at offset "*)
          whole=${line#*"Could not read entry at offset "}
          whole=${whole%%:*}
          ;;
      esac
    done </tmp/binlog.err
    is_number "$whole" || {
      cat /tmp/binlog.err >&2
      return 1
    }
  fi
  [ "${known%:*}" != "${last-}" ] || [ "$whole" -ge "${known#*:}" ]
}

is_whole_dump() {
  case $(zstd --decompress --stdout --quiet "$1" | tail --bytes=200) in
    *"-- Dump completed"*) ;;
    *)
      echo "svc: the dump is not whole" >&2
      return 1
      ;;
  esac
}

# The administrator's password is the one that is known today, whatever it was then.
settle() {
  # As input: arguments are told to whoever lists processes.
  client <<SQL
CREATE USER IF NOT EXISTS 'svc_admin'@'localhost';
GRANT ALL PRIVILEGES ON *.* TO 'svc_admin'@'localhost' WITH GRANT OPTION;
ALTER USER 'svc_admin'@'localhost' IDENTIFIED BY PASSWORD '$verifier';
SQL
}

# Tells what is there: every table of the tenant's database is read to its end. Names are in hexadecimal digits.
look() {
  database=$(query "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME RLIKE '^d_[0-9a-f]{16}\$' ORDER BY 1 LIMIT 1") || return 1
  echo "moment $(restored_moment)"
  [ -n "$database" ] || {
    echo "bytes 0"
    return 0
  }
  query "SELECT CONCAT('bytes ', COALESCE(SUM(DATA_LENGTH + INDEX_LENGTH), 0)) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '$database'" || return 1
  # Each statement travels in hexadecimal digits as well: whatever is in a name, it stays in its line.
  query "SELECT CONCAT('EXECUTE IMMEDIATE X''', HEX(CONCAT('SELECT CONCAT(''table ', HEX(TABLE_SCHEMA), ' ', HEX(TABLE_NAME), ' '', COUNT(*))
      FROM \`$database\`.\`', REPLACE(TABLE_NAME, '\`', '\`\`'), '\`')), ''';')
    FROM information_schema.TABLES WHERE TABLE_SCHEMA = '$database' AND TABLE_TYPE = 'BASE TABLE'
    ORDER BY DATA_LENGTH DESC, TABLE_NAME LIMIT 2000" >/tmp/look.sql || return 1
  client --batch --raw --skip-column-names </tmp/look.sql
}
