# Part of entry.sh: copies as they lie in the volume /copy, and data that is made of one.
#
#   engine               of whose server it is
#   status               what keep.sh tells of it, see there
#   bases/<6 digits>/    whole copies. at: from when on it can be restored. log: which log goes with it. first: the oldest
#                        file of that log which it needs. position: where in it. bytes: what it takes.
#   logs/<6 digits>/     what the server logged, without a gap. end: the last moment that it has, and the place until which it
#                        has everything, once it has a successor.
#   reading              locked by whoever reads: nothing is removed meanwhile

# The word in the first line of a file, and the rest of that line; empty where there is none.
word_of() {
  word= rest=
  [ ! -f "$1" ] || read -r word rest <"$1" || :
}

# What the copy's status says after a word; empty where it does not.
status_of() {
  value=
  [ -f /copy/status ] || return 0
  while read -r name rest; do
    [ "$name" != "$1" ] || value=$rest
  done </copy/status
}

# The newest number in a directory of numbers; empty where there is none.
newest_in() {
  newest=
  for found in "$1"/[0-9][0-9][0-9][0-9][0-9][0-9]; do
    [ ! -d "$found" ] || newest=${found##*/}
  done
}

# Until when a base can be restored, by its directory: sets `word`.
reach_of() {
  word_of "$1/log"
  log=$word
  word_of "/copy/logs/$log/end"
  [ -n "$word" ] || {
    status_of covered
    word=$value
  }
}

# Sets `base` to the newest whole copy that reaches the moment $1; that is empty for all there is.
choose_base() {
  base=
  for found in /copy/bases/[0-9][0-9][0-9][0-9][0-9][0-9]; do
    [ -d "$found" ] || continue
    if [ -n "$1" ]; then
      word_of "$found/at"
      # All times are of one form, so that their texts are in their order.
      if [ "$word" \> "$1" ]; then continue; fi
      reach_of "$found"
      if [ "$word" \< "$1" ]; then continue; fi
    fi
    base=$found
  done
}

# Makes data of the copy in the new directory $1, as it was at the moment $2 (empty: all there is). The function $3 is
# called while a server over it answers nobody else; it has stopped well when this returns. Settings of it follow.
restore_copy() {
  target=$1 moment=$2 then=$3
  shift 3
  [ -z "$moment" ] || is_moment "$moment" || end 78 "that is no moment"
  [ -f /copy/engine ] && [ -f /copy/reading ] || end 79 "there is no copy"
  [ "$(cat /copy/engine)" = "$engine" ] || end 76 "the copy is not of $engine, which is what this image has"
  exec 9</copy/reading
  flock --shared 9
  newest_in /copy/bases
  [ -n "$newest" ] || end 79 "there is no whole copy"
  choose_base "$moment"
  [ -n "$base" ] || end 80 "the copy does not have that moment"
  word_of "$base/log"
  log=$word
  # What of the log has to be there. The status is of the newest one.
  word_of "/copy/logs/$log/end"
  known=$rest
  [ -n "$word" ] || {
    status_of place
    known=$value
  }
  mkdir "$target"
  restore_base "$base" "/copy/logs/$log" "$target/data" "$@" || end 81 "the copy could not be restored"
  exec 9<&-
}

# Until when what was restored reaches.
restored_moment() {
  if [ -n "$moment" ]; then echo "$moment"; else
    reach_of "$base"
    echo "$word"
  fi
}

# Starts a program in the background, with what it says in /tmp/private.log. `has_ended` tells whether it goes on.
begin_private() {
  rm -f /tmp/private.end
  (
    set +e
    "$@" >/tmp/private.log 2>&1
    echo $? >/tmp/private.end
  ) &
}

has_ended() {
  [ -e /tmp/private.end ]
}

# Waits for its end, which has to be a good one.
end_private() {
  wait
  word_of /tmp/private.end
  [ "$word" = 0 ] || {
    cat /tmp/private.log >&2
    return 1
  }
}

is_number() {
  case $1 in
    "" | *[!0-9]*) return 1 ;;
  esac
  [ ${#1} -le 15 ]
}

is_moment() {
  case $1 in
    [0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z) ;;
    *) return 1 ;;
  esac
}
