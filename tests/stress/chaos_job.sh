#!/bin/sh
# What one job of the chaos test does: chaos_job.sh NUMBER MODE. $CLAIM is stress_job, $CLAIMS its folder, $INDICES a
# folder with the index of each GPU, $PORTS one for the ports at which jobs listened, $GPUWARDEN the program, $NAP how
# long what is to be left behind sleeps. Each try of each rank shows at its beginning and at its end that it is alone on
# its GPU.
alone() { "$CLAIM" "$CLAIMS" "$1" || exit $?; }
first() { [ "$GPUWARDEN_RESTART_COUNT" = 0 ]; }
strike() {
  "$GPUWARDEN" sim fault chaos --gpu "$(cat "$INDICES/$CUDA_VISIBLE_DEVICES")" "$1" &&
    touch "$INDICES/struck.$(cat "$INDICES/$CUDA_VISIBLE_DEVICES")"
  sleep 0.2
  exit 9
}
alone 20
case $2 in
  exit*) exit "${2#exit}" ;;
  again) first && exit 1 ;;
  killed) first && kill -KILL $$ ;;
  xid*) first && strike "xid=${2#xid}" ;;
  hang) first && strike hang ;;
  children)
    setsid sh -c 'trap "" TERM; env -i sleep $NAP & sleep $NAP' &
    setsid "$CLAIM" listen "$PORTS" &
    sleep "$NAP" & ;;
  # Several ranks: the second fails, is killed, or loses its GPU; the others have to end with it.
  pair) [ "$RANK" = 1 ] && exit 5; sleep "$NAP" ;;
  pairkilled)
    if first; then
      [ "$RANK" = 1 ] && kill -KILL $$
      [ "$RANK" = 0 ] && { "$CLAIM" listen "$PORTS" & sleep "$NAP"; }
    fi ;;
  pairxid) if first; then [ "$RANK" = 1 ] && strike xid=119; sleep "$NAP"; fi ;;
  wait)
    touch "$CLAIMS/up.$1"
    while [ ! -e "$CLAIMS/go.$1" ]; do sleep 0.05; done ;;
esac
alone 5
exit 0
