#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A cluster on loopback: NODES `gpuwarden serve` processes with eight simulated GPUs each, read every five seconds, and
# one that shows them all. Prints what that costs, and ends them.
#   bench/many_nodes.sh [NODES] [SECONDS] [PROGRAM]
set -euo pipefail

nodes=${1:-125} seconds=${2:-60} program=${3:-build/release/bin/gpuwarden}
work=$(mktemp -d)
pids=()
# shellcheck disable=SC2329  # the trap calls it
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2> /dev/null || true; done
  wait
  rm -rf "$work"
}
trap finish EXIT
export GPUWARDEN_SIM_DIR=$work/sim GPUWARDEN_LEASE_DIR=$work/leases GPUWARDEN_STATE_DIR=$work/state

# serve NAME ARGUMENT...: starts a server; its address goes to $work/NAME.
serve() {
  local name=$1
  shift
  "$program" serve --listen 127.0.0.1:0 --interval 5s "$@" > "$work/$name" 2> "$work/$name.log" &
  pids+=($!)
}
address() {
  until grep -qs listening "$work/$1"; do sleep 0.1; done
  sed -n 's|.*http://\([0-9.:]*\).*|\1|p' "$work/$1"
}
# Resident megabytes, hundredths of a second of a processor, and number of the processes $@ and their children.
cost() {
  cat /proc/[0-9]*/stat 2> /dev/null | sed 's/^\([0-9]*\) (.*) /\1 /' | awk -v roots="$*" -v page="$(getconf PAGESIZE)" '
    BEGIN { n = split(roots, list, " "); for (i = 1; i <= n; i++) mine[list[i]] = 1 }
    $1 in mine || $3 in mine { all += $23 * page; spent += $13 + $14; count++ }
    END { printf "%.0f %.0f %d", all / 1048576, spent, count }'
}

begun=$SECONDS
for ((i = 0; i < nodes; ++i)); do
  serve "node$i" --simulate h100x8
  ((i % 5 < 4)) || address "node$i" > /dev/null
done
for ((i = 0; i < nodes; ++i)); do address "node$i"; done > "$work/peers"
echo "$nodes nodes after $((SECONDS - begun)) s"
serve all --simulate h100x8 --peers "$work/peers" --peers-interval 5s
whole=${pids[-1]}
url=http://$(address all)
told() { curl -sf "$url/metrics" | grep -c '^gpuwarden_gpu_answers{.* 1$' || true; }
begun=$SECONDS
until (($(told) >= 8 * (nodes + 1) || SECONDS - begun > 60)); do sleep 1; done
echo "$(told) GPUs of $((8 * (nodes + 1))) shown after $((SECONDS - begun)) s"

read -r rss_before cpu_before processes <<< "$(cost "${pids[@]}")"
read -r whole_before whole_cpu _ <<< "$(cost "$whole")"
sleep "$seconds"
read -r rss_after cpu_after _ <<< "$(cost "${pids[@]}")"
read -r whole_after whole_cpu_after _ <<< "$(cost "$whole")"
echo "all: $processes processes, $rss_before MB resident at first, $rss_after MB after $seconds s, $(((cpu_after - cpu_before) / seconds)) % of a core"
echo "the one that shows all: $whole_before MB, then $whole_after MB, $(((whole_cpu_after - whole_cpu) / seconds)) % of a core"
for path in /metrics '/api/v1/nodes?brief=true' /api/v1/nodes; do
  for round in first second; do
    curl -s -o /dev/null -w "$path, $round: %{http_code}, %{time_total} s, %{size_download} bytes\n" "$url$path"
  done
done
echo "$(told) GPUs shown at the end"
