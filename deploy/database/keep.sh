# Part of entry.sh: keeps a copy of a database in the volume /copy, for as long as it runs. It is killed at any moment, and
# goes on from what lies there. What is asked of the server is by the engine's own (engine-keep.sh):
#
#   prepare_keep    once
#   ask             sets asked_s and asked (the server's time), at (the place in its log until which all is on its disk that
#                   was acknowledged before that time), word_at (control's word for that place), has (1: its log from the
#                   newest file of ours on is there)
#   begin_log       makes the log follow from now on
#   receive         writes the log into $log, until the connection ends. Notes its process in /tmp/receiver.pid
#   has_position    whether the log has that place, on the disk
#   is_written_to   whether something was added to the log since the file $1 was touched
#   make_base       writes a whole copy into the directory $1; sets nothing, ends with 0 when it has all, with $changing when
#                   what the tenant does stood against it. Notes the process that takes the time in /tmp/base.pid, and fails
#                   when that is killed
#   finish_base     whether what goes with the base in the directory $1 is there as well; makes its files first, position
#   prune_log       removes files of the log in the directory $1 that are older than $2
#
# Its word is the file `status`, one fact in a line:
#
#   svc-copy 1
#   state basing | following | broken
#   problem <a code; absent: none>
#   covered <moment>      all that was acknowledged until then is here, on the disk
#   position <control's word for the place in its log until which all of it is here>
#   place <that place>
#   base <number> <from when on> <bytes> <until when, or ->

# So often it looks around, and so often it asks when nothing happens. What follows is in such looks, but for what tells a
# server that is slow from one that is stuck.
look_ms=2000
ask_every_looks=5
# So often it is measured, and what is too old goes.
tidy_every_looks=15
base_retry_looks=30
base_retry_max_looks=300
crowded_base_every_looks=30
# So long without that what the server had has arrived: whoever receives is stuck.
stall_ms=60000
changing=3

# Arguments: the copy's name in 16 hexadecimal digits, how old the newest base may become and how far back a restore must
# be able to go in seconds, and what all of it may take in MiB. SVC_DB_LOOK_MS has it look around at another pace.
keep() {
  [ $# = 4 ] && is_number "$2" && is_number "$3" && is_number "$4" || end 78 "a copy is told its name and three numbers"
  case $1 in
    *[!0-9a-f]*) end 78 "that is no name of a copy" ;;
  esac
  copy=$1 base_every_s=$2 keep_s=$3 size_mb=$4
  set_pace "${look_every_ms:-$look_ms}"
  cd /copy
  if [ -e engine ]; then
    [ "$(cat engine)" = "$engine" ] || end 76 "the copy is not of $engine, which is what this image has"
  else
    mkdir -p bases logs
    : >reading
    write_file engine "$engine"
  fi
  rm -rf bases/new bases/gone logs/gone
  status_of covered
  covered=$value
  status_of position
  position=$value
  status_of place
  covered_at=$value
  newest_in logs
  era=$newest
  [ -n "$era" ] || next_era
  log=/copy/logs/$era
  prepare_keep

  looks=0 asked_at=0 tidied_at=0 asked_s=0 problem= is_full= pending= pending_at= pending_looks=0
  base_state=none base_failures=0 base_retry=0 base_problem= used_mb=0 log_mb=0 has= era_covered=
  rm -f /tmp/receiver.end
  receiver=
  : >/tmp/asked
  while :; do
    look_around
    sleep "$look_s"
    looks=$((looks + 1))
  done
}

# Sets what is counted in looks, once it is known how long one is.
set_pace() {
  is_number "$1" && [ "$1" -gt 0 ] || end 78 "a copy is looked at after a number of milliseconds"
  look_s=$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))
  stall_looks=$((stall_ms / $1))
  base_retry_s=$((base_retry_looks * $1 / 1000))
  base_retry_max_s=$((base_retry_max_looks * $1 / 1000))
  crowded_base_every_s=$((crowded_base_every_looks * $1 / 1000))
}

# A file with one line, all of it or nothing.
write_file() {
  printf '%s\n' "$2" >"$1.new"
  sync "$1.new"
  mv "$1.new" "$1"
}

# Six digits more than $1 by one: sets `next`.
next_after() {
  next=$(printf '%06d' $((1${1:-000000} - 999999)))
}

next_era() {
  [ -z "$era" ] || [ -z "$covered" ] || write_file "logs/$era/end" "$covered $covered_at"
  next_after "$era"
  era=$next era_covered= position= covered_at=
  mkdir "logs/$era"
  sync logs
  log=/copy/logs/$era
}

look_around() {
  if [ -n "$receiver" ] && [ -e /tmp/receiver.end ]; then
    wait "$receiver" || :
    receiver=
  fi
  if is_due; then
    asked_at=$looks
    : >/tmp/asked
    if ask 2>/tmp/ask.err; then
      follow
    else
      problem=NOT_REACHED
    fi
    [ "$base_state" = none ] || step_base
    if [ "$tidied_at" = 0 ] || [ "$((looks - tidied_at))" -ge "$tidy_every_looks" ]; then tidy; fi
    tell
  elif [ "$base_state" != none ]; then
    step_base
  fi
}

is_due() {
  [ "$looks" = 0 ] || [ "$((looks - asked_at))" -ge "$ask_every_looks" ] || [ -n "$pending" ] || [ "$base_state" = finishing ] ||
    { [ -n "$receiver" ] && is_written_to /tmp/asked; }
}

# The server has answered.
follow() {
  problem=
  if [ -z "$has" ] && [ -e "$log/begun" ]; then
    # What the server had for this copy is gone: from here on it is another log, and there has to be another base.
    stop_receiver
    next_era
    pending=
    problem=LOG_LOST
    [ "$base_state" = none ] || base_state=in-vain
  fi
  if [ -n "$is_full" ]; then
    problem=TOO_LARGE
    return 0
  fi
  if [ ! -e "$log/begun" ]; then
    begin_log 2>/tmp/ask.err || {
      problem=REFUSED
      return 0
    }
    write_file "$log/begun" 1
  fi
  if [ -z "$receiver" ]; then
    rm -f /tmp/receiver.end /tmp/receiver.pid
    (
      set +e
      receive >/tmp/receiver.log 2>&1
      echo $? >/tmp/receiver.end
    ) &
    receiver=$!
    await
    return 0
  fi
  if has_position "$at"; then
    covered=$asked covered_at=$at position=$word_at era_covered=1 pending=
  elif [ -z "$pending" ]; then
    await
  elif has_position "$pending_at"; then
    covered=$pending covered_at=$pending_at position=$pending_word era_covered=1
    await
  else
    pending_looks=$((pending_looks + 1))
    # A large transaction takes its time: MariaDB's would begin anew, and never get here.
    if is_written_to /tmp/waited; then pending_looks=0; fi
    : >/tmp/waited
    if [ "$pending_looks" -gt "$stall_looks" ]; then
      stop_receiver
      problem=STALLED
    fi
  fi
  if [ "$base_state" = none ] && [ -n "$era_covered" ] && is_base_due; then begin_base; fi
}

# What the server has now is to arrive next.
await() {
  pending=$asked pending_at=$at pending_word=$word_at pending_looks=0
}

stop_receiver() {
  [ -n "$receiver" ] || return 0
  kill_until_end receiver
  wait "$receiver" || :
  receiver=
}

# It may be about to begin: whoever waited for its end then would wait for as long as it goes on.
kill_until_end() {
  until [ -e "/tmp/$1.end" ]; do
    word_of "/tmp/$1.pid"
    [ -z "$word" ] || kill -KILL "$word" 2>/dev/null || :
    sleep 0.1
  done
}

# When the newest is too old, or none goes with this log, or the log takes most of the room: an older base and what goes with
# it make room once there is another.
is_base_due() {
  [ "$asked_s" -ge "$base_retry" ] || return 1
  has_base || return 0
  word_of "bases/$newest/made"
  [ "$((asked_s - word))" -lt "$base_every_s" ] || return 0
  is_crowded && [ "$((log_mb * 2))" -gt "$used_mb" ] && [ "$((asked_s - word))" -gt "$crowded_base_every_s" ]
}

# Whether the newest whole copy goes with the log that is written now.
has_base() {
  newest_in bases
  [ -n "$newest" ] || return 1
  word_of "bases/$newest/log"
  [ "$word" = "$era" ]
}

begin_base() {
  rm -rf bases/new
  mkdir bases/new
  rm -f /tmp/base.end /tmp/base.pid
  (
    set +e
    make_base bases/new >/tmp/base.log 2>&1
    echo $? >/tmp/base.end
  ) &
  base_pid=$!
  base_state=making
}

give_up_base() {
  base_failures=$((base_failures + 1))
  wait_s=$((base_retry_s * base_failures))
  [ "$wait_s" -le "$base_retry_max_s" ] || wait_s=$base_retry_max_s
  base_retry=$((asked_s + wait_s))
  base_state=none
  base_problem=$1
  rm -rf bases/new
}

# One that there is no room for. Nothing can be restored by the log that was kept for it alone: there is another one.
end_base() {
  kill_until_end base
  wait "$base_pid" || :
  give_up_base TOO_LARGE
  has_base || {
    stop_receiver
    next_era
    pending=
  }
}

step_base() {
  if [ "$base_state" != finishing ]; then
    [ -e /tmp/base.end ] || return 0
    wait "$base_pid" || :
    word_of /tmp/base.end
    if [ "$word" = 0 ] && [ "$base_state" = making ]; then
      base_state=finishing
    else
      cat /tmp/base.log >&2
      case $word in
        "$changing") give_up_base CHANGING ;;
        *) give_up_base BASE_FAILED ;;
      esac
      return 0
    fi
  fi
  finish_base bases/new || return 0
  printf '%s\n' "$covered" >bases/new/at
  printf '%s\n' "$asked_s" >bases/new/made
  printf '%s\n' "$era" >bases/new/log
  set -- $(du --bytes --summarize bases/new)
  printf '%s\n' "$1" >bases/new/bytes
  sync --file-system bases/new
  newest_in bases
  next_after "$newest"
  mv --no-target-directory bases/new "bases/$next"
  sync --file-system bases
  base_state=none base_failures=0 base_problem=
  tidy
}

# Removes what is of no use any more, unless somebody reads: bases before the newest that has the earliest moment that must
# be had, then the oldest ones while there is little room, and logs that no base goes with. What is not whole yet goes first when
# more is taken than may be: the newest whole copy is followed in any case.
tidy() {
  tidied_at=$looks
  measure
  if is_over && [ "$base_state" != none ]; then end_base; fi
  (
    exec 8<reading
    flock --exclusive --nonblock 8 || exit 0
    before=
    for found in bases/[0-9][0-9][0-9][0-9][0-9][0-9]; do
      [ -d "$found" ] || continue
      word_of "$found/made"
      if [ -n "$before" ] && [ "$word" -le "$((asked_s - keep_s))" ]; then remove "$before"; fi
      before=$found
    done
    tidy_logs
    measure
    while is_crowded; do
      set -- bases/[0-9][0-9][0-9][0-9][0-9][0-9]
      [ $# -gt 1 ] || exit 0
      remove "$1"
      tidy_logs
      measure
    done
  )
  measure
  is_full=
  if is_over; then
    is_full=1
    stop_receiver
  fi
}

measure() {
  used_mb=$(du --block-size=1M --summarize . | { read -r mb _ && echo "$mb"; })
  log_mb=$(du --block-size=1M --summarize "$log" | { read -r mb _ && echo "$mb"; })
}

is_over() {
  [ "$used_mb" -gt "$size_mb" ]
}

is_crowded() {
  [ "$((used_mb * 4))" -gt "$((size_mb * 3))" ]
}

# By a name that nobody looks for first: what is half removed is never taken for whole.
remove() {
  rm -rf "${1%/*}/gone"
  mv --no-target-directory "$1" "${1%/*}/gone"
  rm -rf "${1%/*}/gone"
}

tidy_logs() {
  for found in logs/[0-9][0-9][0-9][0-9][0-9][0-9]; do
    oldest=
    for each in bases/[0-9][0-9][0-9][0-9][0-9][0-9]; do
      [ -d "$each" ] && [ -z "$oldest" ] || continue
      word_of "$each/log"
      if [ "logs/$word" = "$found" ]; then
        word_of "$each/first"
        oldest=$word
      fi
    done
    if [ -n "$oldest" ]; then
      prune_log "$found" "$oldest"
    elif [ "$found" != "logs/$era" ]; then
      remove "$found"
    fi
  done
}

tell() {
  newest_in bases
  state=basing reach=
  if [ -n "$newest" ]; then
    state=following reach=$covered
    [ -z "$is_full" ] || state=broken
    word_of "bases/$newest/log"
    if [ "$word" != "$era" ]; then
      state=broken problem=${problem:-LOG_LOST}
      word_of "logs/$word/end"
      reach=$word
    fi
  fi
  problem=${problem:-$base_problem}
  {
    echo "svc-copy 1"
    echo "state $state"
    [ -z "$problem" ] || echo "problem $problem"
    [ -z "$reach" ] || echo "covered $reach"
    # Of another log than that of the newest base it would say nothing.
    if [ "$reach" = "$covered" ] && [ -n "$covered_at" ]; then
      echo "place $covered_at"
      [ -z "$position" ] || echo "position $position"
    fi
    for found in bases/[0-9][0-9][0-9][0-9][0-9][0-9]; do
      [ -d "$found" ] || continue
      word_of "$found/at" && from=$word
      word_of "$found/bytes" && bytes=$word
      word_of "$found/log"
      word_of "logs/$word/end"
      echo "base ${found##*/} $from $bytes ${word:--}"
    done
  } >status.new
  # A restore goes by it: after a power failure it is this one or the one before, and not an empty one.
  sync --data status.new
  mv status.new status
}
