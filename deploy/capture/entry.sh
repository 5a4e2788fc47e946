#!/bin/sh
# Starts a browser without a network: what it opens to 127.0.0.1:3128 goes to the socket that the agent listens at, and there is
# no other way out. It is told what to do on standard input, and answers on standard output.
set -eu
/usr/bin/socat TCP-LISTEN:3128,bind=127.0.0.1,fork,reuseaddr,backlog=64 UNIX-CONNECT:/way/edge </dev/null >/dev/null 2>&1 &
exec /usr/lib/chromium/chromium-headless-shell --remote-debugging-pipe "$@" 3<&0 4>&1 0</dev/null 1>&2
