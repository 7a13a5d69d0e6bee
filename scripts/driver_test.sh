#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpuwarden driver in a Debian root with stand-in packages, a failure or a kill injected at every step, forward and on
# the way back. Needs root (chroot) and debootstrap; says so and passes where it cannot have them. The root is made
# once and kept in build/driver-root.tar.
source "$(dirname "$0")/lib.sh"

skip() { say "driver test left out: $*"; exit 0; }
[ "$(id -u)" = 0 ] || skip "it needs root, for chroot"
program=${1:-build/release/bin/gpuwarden}
[ -x "$program" ] || die "there is no $program: scripts/test.sh builds it"
program=$(realpath "$program")
export GPUWARDEN_OFFLINE=1
need_packages "${driver_test_packages[@]}"

place=${TMPDIR:-/tmp}
# What runs that were killed a day ago or more have left.
find "$place" /dev/shm -maxdepth 1 -user "$(id -u)" -name 'gpuwarden-driver.*' -mtime +0 -exec rm -rf --one-file-system {} +
# In memory where that is roomy and takes programs and device files.
if [ "$(df -Pm /dev/shm | awk 'NR == 2 { print $4 }')" -gt 3000 ] && ! findmnt -no OPTIONS /dev/shm | grep -qE 'nodev|noexec'; then place=/dev/shm; fi
work=$(mktemp -d "$place/gpuwarden-driver.XXXXXX")
trap 'rm -rf "$work"' EXIT
kernel=$(uname -r)
started=$SECONDS
stage() { printf '[%s s] %s\n' $((SECONDS - started)) "$*"; }

# ---- the root ----

make_root() {
  local mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
           awk '$2 == "bookworm" && $3 == "main" && !seen++ { print $1 }')
  stage "making a Debian root (once)"
  debootstrap --variant=minbase bookworm "$work/fresh" "${mirror:-http://deb.debian.org/debian}" >"$work/debootstrap.log" 2>&1 ||
    { tail -n 5 "$work/debootstrap.log" >&2; skip "debootstrap could not make a root"; }
  (cd "$work/fresh" && rm -rf usr/share/{doc,man,locale,zoneinfo,info,i18n} usr/lib/*/gconv var/cache/apt/* var/lib/apt/lists/* dev/* proc/* &&
    mkdir -p var/cache/apt/archives/partial var/lib/apt/lists/partial)
  mkdir -p build
  tar -C "$work/fresh" -cf build/driver-root.tar.part . && mv build/driver-root.tar.part build/driver-root.tar
  rm -rf "$work/fresh"
}

# A step's shell in the root: does what /inject says, once, and else what it is told.
stand_in_shell() {
  cat <<'END'
#!/bin/dash
echo "$PPID $$" >/var/standin/pids
when='' step='' how=''
[ ! -e /inject ] || read -r when step how </inject
fire() { rm -f /inject; [ "$how" != kill ] || kill -9 "$PPID"; echo "stand-in: failure injected"; exit 9; }
[ "$when $step" != "before $GPUWARDEN_STEP" ] || fire
/bin/dash "$@"
code=$?
[ "$when $step" != "after $GPUWARDEN_STEP" ] || fire
exit $code
END
}

# What maintainer scripts of the stand-in packages begin with: power is lost in the middle of dpkg.
power_cut='#!/bin/sh
set -e
if [ -e /inject ] && read -r when step how </inject && [ "$when $step" = "mid $GPUWARDEN_STEP" ]; then
  rm -f /inject; read -r program shell </var/standin/pids
  kill -9 "$program"; kill -9 "-$shell" "$PPID" $$
fi
'

stand_in_programs() {
  local root=$1
  cat >"$root/usr/bin/systemctl" <<'END'
#!/bin/sh
echo "systemctl $*" >>/var/standin/calls
verb=$1; for unit; do :; done
touch /var/standin/active
case $verb in
  is-active) grep -qx "$unit" /var/standin/active ;;
  stop) grep -vx "$unit" /var/standin/active >/var/standin/rest || true; mv /var/standin/rest /var/standin/active ;;
  start) grep -qx "$unit" /var/standin/active || echo "$unit" >>/var/standin/active ;;
esac
END
  cat >"$root/usr/sbin/modprobe" <<'END'
#!/bin/sh
echo "modprobe $*" >>/var/standin/calls
module=/lib/modules/$(uname -r)/updates/dkms/nvidia.ko
if [ "$1" = -r ]; then
  [ "$2" != nvidia ] || ! grep -q '^nvidia_' /proc/modules || { echo "Module nvidia is in use" >&2; exit 1; }
  grep -v "^$2 " /proc/modules >/var/standin/rest || true; cat /var/standin/rest >/proc/modules
  [ "$2" != nvidia ] || rm -f /proc/driver/nvidia/version
  exit 0
fi
[ -e "$module" ] || { echo "Module $1 not found" >&2; exit 1; }
for name in nvidia "$1"; do grep -q "^$name " /proc/modules || echo "$name 1 0 - Live 0x0" >>/proc/modules; done
kind=''; ! grep -q MIT "$module" || kind='Open '
echo "NVRM version: NVIDIA UNIX ${kind}Kernel Module for x86_64  $(tr '\0' '\n' <"$module" | sed -n 's/^version=//p')  Tue Jan 13" >/proc/driver/nvidia/version
END
  cat >"$root/usr/sbin/modinfo" <<'END'
#!/bin/sh
tr '\0' '\n' <"/lib/modules/$2/updates/dkms/nvidia.ko" | sed -n "s/^$4=//p"
END
  cat >"$root/usr/bin/curl" <<'END'
#!/bin/sh
while [ "$1" != -o ]; do shift; done
cp /srv/cuda-keyring.deb "$2"
END
  stand_in_shell >"$root/usr/local/sbin/sh"
  chmod 755 "$root/usr/bin/systemctl" "$root/usr/sbin/modprobe" "$root/usr/sbin/modinfo" "$root/usr/bin/curl" "$root/usr/local/sbin/sh"
}

# build FOLDER NAME VERSION DEPENDS MAINTAINER: packs $work/tree, which it empties; conffiles are what is in /etc.
build() {
  local tree=$work/tree control
  mkdir -p "$tree/DEBIAN" "$1"
  printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: %s\nDescription: stand-in\n' "$2" "$3" "$5" >"$tree/DEBIAN/control"
  [ -z "$4" ] || echo "Depends: $4" >>"$tree/DEBIAN/control"
  (cd "$tree" && find etc -type f 2>/dev/null | sed 's,^,/,') >"$tree/DEBIAN/conffiles" || true
  for control in preinst postinst prerm postrm; do
    [ -e "$tree/DEBIAN/$control" ] || printf '%s' "$power_cut" >"$tree/DEBIAN/$control"
    chmod 755 "$tree/DEBIAN/$control"
  done
  dpkg-deb --root-owner-group -Znone -b "$tree" "$1" >/dev/null
  rm -rf "$tree"
}

put() { mkdir -p "$(dirname "$work/tree/$1")"; printf '%s\n' "$2" >"$work/tree/$1"; }

# kernel_module NAME/VERSION LICENSE: maintainer scripts that build and remove it by DKMS.
kernel_module() {
  mkdir -p "$work/tree/DEBIAN"
  put "usr/src/${1%/*}-${1#*/}/dkms.conf" "$2"
  printf '%sdkms install %s -k "$(uname -r)"\n' "$power_cut" "$1" >"$work/tree/DEBIAN/postinst"
  printf '%sdkms remove %s -k "$(uname -r)" || true\n' "$power_cut" "$1" >"$work/tree/DEBIAN/prerm"
}

dkms_program() {
  put usr/sbin/dkms "$(cat <<'END'
#!/bin/sh
echo "dkms $*" >>/var/standin/calls
verb=$1; shift; [ "${1:-}" != --force ] || shift
module=${1:-} kernel=${3:-}
place=/lib/modules/$kernel/updates/dkms
case $verb in
  status)
    for folder in /var/lib/dkms/*/*/*; do
      [ ! -d "$folder" ] || echo "$folder" | sed 's,^/var/lib/dkms/\([^/]*/[^/]*\)/\(.*\)$,\1\, \2\, x86_64: installed,'
    done ;;
  install)
    mkdir -p "/var/lib/dkms/$module/$kernel/x86_64/module" "$place"
    printf 'ELF\0version=%s\0license=%s\0' "${module#*/}" "$(cat "/usr/src/$(echo "$module" | tr / -)/dkms.conf")" >"$place/nvidia.ko" ;;
  remove)
    rm -rf "/var/lib/dkms/$module"; rm -f "$place/nvidia.ko"
    rmdir -p --ignore-fail-on-non-empty "/var/lib/dkms/${module%/*}" ;;
esac
END
)"
  chmod 755 "$work/tree/usr/sbin/dkms"
}

# What Debian has: 535. What NVIDIA's repository has: 580, by other packages. And a program of somebody else.
make_packages() {
  local debian=$1/srv/debian nvidia=$1/srv/developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64
  local theirs='Debian NVIDIA Maintainers <pkg-nvidia@example.org>' own='cudatools <cudatools@nvidia.com>'
  local old=535.183.01-1~deb12u1 new=580.126.09-1
  dkms_program; build "$debian" dkms 3.0.10-8 '' "$theirs"
  put usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01 old; put etc/OpenCL/vendors/icd 'libold.so'
  build "$debian" libcuda1 "$old" '' "$theirs"
  kernel_module nvidia-current/535.183.01 NVIDIA; put etc/modprobe.d/nvidia.conf 'options nvidia-drm modeset=1'
  build "$debian" nvidia-kernel-dkms "$old" dkms "$theirs"
  put usr/bin/nvidia-settings old; build "$debian" nvidia-settings 535.171.04-1~deb12u1 '' "$theirs"
  put etc/nvidia/driver.conf 'default'
  build "$debian" nvidia-driver "$old" "libcuda1 (= $old), nvidia-kernel-dkms (= $old)" "$theirs"
  put etc/nvidia/fabricmanager.cfg 'LOG_LEVEL=4'; build "$debian" nvidia-fabricmanager 535.183.01-1 '' "$theirs"
  put etc/trainer.conf 'batch=1'; put usr/bin/trainer trainer; build "$debian" trainer 1.0 libcuda1 'Ada <ada@example.org>'

  put usr/lib/x86_64-linux-gnu/libcuda.so.580.126.09 new; build "$nvidia" libcuda1 "$new" '' "$own"
  kernel_module nvidia/580.126.09 'Dual MIT/GPL'; build "$nvidia" nvidia-kernel-open-dkms "$new" dkms "$own"
  put etc/nvidia/open.conf open
  build "$nvidia" nvidia-open "$new" "libcuda1 (= $new), nvidia-kernel-open-dkms (= $new)" "$own"
  put etc/apt/preferences.d/nvidia-driver 'Package: *nvidia*
Pin: version 580.*
Pin-Priority: 1000'
  build "$nvidia" nvidia-driver-pinning-580 580-1 '' "$own"
  put etc/nvidia/fabricmanager.cfg 'LOG_LEVEL=5'; build "$nvidia" nvidia-fabricmanager "$new" '' "$own"
  put etc/apt/sources.list.d/cuda-debian12-x86_64.list "deb [trusted=yes] file:/${nvidia#"$1"/} ./"
  build "$work/keyring" cuda-keyring 1.1-1 '' "$own"
  mv "$work/keyring"/*.deb "$1/srv/cuda-keyring.deb"
  local folder
  for folder in "$debian" "$nvidia"; do (cd "$folder" && apt-ftparchive packages . >Packages); done
}

# A node with two H100 and an NVSwitch, at work on R535: services, display manager, changed configuration, a hold.
furnish() {
  local root=$1 device
  mkdir -p "$root"/{var/standin,proc/sys/kernel/random,proc/driver/nvidia,etc/X11,"lib/modules/$kernel"/{kernel,build}}
  mknod -m 666 "$root/dev/null" c 1 3 && : >"$root/dev/null" || skip "device files cannot be made in $place"
  chroot "$root" /bin/true || skip "chroot is not permitted here"
  echo "$kernel" >"$root/proc/sys/kernel/osrelease"
  echo boot-1 >"$root/proc/sys/kernel/random/boot_id"
  : >"$root/proc/modules"
  for device in 0000:18:00.0=0x2330=0x030200 0000:2a:00.0=0x2330=0x030200 0000:05:00.0=0x22a3=0x068000; do
    mkdir -p "$root/sys/bus/pci/devices/${device%%=*}"
    (cd "$root/sys/bus/pci/devices/${device%%=*}" && echo 0x10de >vendor && echo "0x${device#*=0x}" | sed 's/=.*//' >device && echo "${device##*=}" >class)
  done
  stand_in_programs "$root"
  make_packages "$root"
  echo 'deb [trusted=yes] file:/srv/debian ./' >"$root/etc/apt/sources.list"
  rm -f "$root"/etc/apt/sources.list.d/*
  echo 'APT::Sandbox::User "root"; Acquire::Languages "none";' >"$root/etc/apt/apt.conf.d/00test"
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/test"
  chroot "$root" /bin/sh -euc '
    apt-get -q update
    DEBIAN_FRONTEND=noninteractive apt-get -y -q install nvidia-driver nvidia-settings nvidia-fabricmanager trainer
    apt-mark hold nvidia-driver
    modprobe nvidia; modprobe nvidia_uvm
    for unit in display-manager nvidia-persistenced nvidia-fabricmanager ssh; do systemctl start "$unit"; done
    echo "batch=64" >/etc/trainer.conf
    echo "changed by hand" >>/etc/nvidia/driver.conf
    echo "Section \"Device\"" >/etc/X11/xorg.conf
    echo "/usr/sbin/gdm3" >/etc/X11/default-display-manager
    echo "0/GPUPowerMizerMode=1" >/root/.nvidia-settings-rc
    echo "options nvidia NVreg_PreserveVideoMemoryAllocations=1" >/etc/modprobe.d/site-nvidia.conf
  ' >"$work/furnish.log" 2>&1 || { cat "$work/furnish.log" >&2; die "the root could not be furnished"; }
}

# ---- what is compared ----

# state ROOT: packages, marks, every file that is not a cache or a record (great ones by size), services, modules.
state() {
  local root=$1
  dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Package} ${Architecture} ${Version} ${Status}\n${Conffiles}\n'
  awk '/^Package:/ { name = $2 } /^Auto-Installed: 1/ { print "auto", name }' "$root/var/lib/apt/extended_states" | sort
  (cd "$root" && find etc usr root var/lib/dkms srv ! -type d ! -path etc/ld.so.cache -printf '%p %M %u %s %l\n' | sort
   find etc usr root var/lib/dkms -type f -size -64k ! -path etc/ld.so.cache -print0 | sort -z | xargs -0 sha256sum)
  sort "$root/var/standin/active" "$root/proc/modules"
  cat "$root/proc/driver/nvidia/version"
}

same() {  # same STATE-FILE ROOT WHAT
  state "$2" >"$2.state" 2>&1 || true
  cmp -s "$1" "$2.state" || { diff "$1" "$2.state" | head -n 20 >&2; tail -n 30 "$2"/var/lib/gpuwarden/driver/*/log >&2; die "$3: not the state it should be"; }
}

# In a subshell, so that bash's word about a killed program goes to the output too.
driver() { ("$program" driver "$2" --root "$1" --yes "${@:3}"; exit $?) >"$1.out" 2>&1 </dev/null; }

expect() {  # expect CODE ROOT VERB ARGUMENT...
  local code=0
  driver "${@:2}" || code=$?
  [ "$code" = "$1" ] || { cat "$2.out" "$2"/var/lib/gpuwarden/driver/*/log >&2; die "driver ${*:3} gave $code, not $1"; }
}

copy() { cp -a --reflink=auto "$1" "$2"; }

inject() { echo "$2 $3 $4" >"$1/inject"; }  # ROOT before|after|mid STEP fail|kill

# interrupted CODE ROOT WHAT VERB...: runs, and sees to it that what was injected did happen.
interrupted() {
  expect "$1" "$2" "${@:4}"
  [ ! -e "$2/inject" ] || { cat "$2.out" >&2; tail -n 30 "$2"/var/lib/gpuwarden/driver/*/log >&2; die "$3: was never reached"; }
}

# Led back from here, the root must be as it was.
leads_back() {
  expect 0 "$1" rollback
  same "$work/before" "$1" "way back after $2"
  rm -rf "$1"*
}

# A copy of the root as it stands now is led back, beside what goes on.
places=0
branch_back() {
  places=$((places + 1))
  copy "$1" "$work/back.$places"
  in_background leads_back "$work/back.$places" "$2"
}

failures=$work/failures
pool=0
in_background() {
  { ("$@") || echo "$*" >>"$failures"; } &
  pool=$((pool + 1))
  [ $pool -lt $((jobs + 1)) ] || { wait -n || true; pool=$((pool - 1)); }
}

# ---- the scenarios ----

steps_of() { "$program" driver plan --root "$1" --json "${@:2}" | python3 -c 'import json, sys; print(*[step["id"] for step in json.load(sys.stdin)["steps"]])'; }

# Nothing may be changed where a pre-check says no, nor twice at once.
test_refusals() {
  local root=$work/refusals
  copy "$work/root" "$root"
  mkdir -p "$root/run/systemd/sessions"
  printf 'USER=ada\nCLASS=user\nTYPE=x11\nSTATE=active\nDISPLAY=:0\n' >"$root/run/systemd/sessions/1"
  expect 1 "$root" apply
  grep -q 'graphical sessions would end: ada on :0' "$root.out" || die "refusal: not told"
  expect 2 "$root" apply --force processes
  mkdir -p "$root/var/lib/gpuwarden/driver"
  exec 9>"$root/var/lib/gpuwarden/driver/lock"
  flock 9
  expect 1 "$root" apply --force sessions 9>&-
  grep -q 'another gpuwarden' "$root.out" || die "two at once: not told"
  exec 9>&-
  expect 1 "$root" apply --resume
  expect 1 "$root" rollback
  same "$work/before" "$root" "refusals"
}

# Interrupted before, in and after each step, by failure and by SIGKILL: resumed each time, and led back in a copy.
test_forward() {
  local root=$work/forward verb=(apply) step
  copy "$work/root" "$root"
  for step in $(steps_of "$root"); do
    inject "$root" before "$step" fail; interrupted 1 "$root" "failure of $step" "${verb[@]}"
    verb=(apply --resume)
    inject "$root" before "$step" kill; interrupted 137 "$root" "kill before $step" "${verb[@]}"
    case $step in remove|install)
      branch_back "$root" "a kill before $step"
      inject "$root" mid "$step" kill; interrupted 137 "$root" "kill in $step" "${verb[@]}"
      branch_back "$root" "a kill in $step" ;;
    esac
    inject "$root" after "$step" kill; interrupted 137 "$root" "kill after $step" "${verb[@]}"
    branch_back "$root" "a kill after $step"
  done
  expect 0 "$root" apply --resume
  same "$work/after" "$root" "resumed after each step"
  expect 0 "$root" rollback
  same "$work/before" "$root" "way back from the end"
}

# The way back, interrupted before, in and after each undoing.
test_backward() {
  local root=$work/backward step
  copy "$work/applied" "$root"
  mkdir -p "$root/run/systemd/sessions"
  printf 'USER=ada\nCLASS=user\nTYPE=x11\nSTATE=active\nDISPLAY=:0\n' >"$root/run/systemd/sessions/1"
  expect 1 "$root" rollback
  grep -q 'graphical sessions would end: ada on :0' "$root.out" || die "the way back would end a session: not told"
  same "$work/after" "$root" "refused way back"
  rm "$root/run/systemd/sessions/1"
  for step in $(steps_of "$work/root" | tr ' ' '\n' | tac); do
    # Steps that change nothing have nothing to undo.
    case $step in record|save|idle|dependents|verify) continue ;; esac
    inject "$root" before "$step/undo" fail; interrupted 1 "$root" "failure of $step/undo" rollback
    if grep -q -e --resume "$root.out"; then die "after a failed way back, going forward is offered"; fi
    inject "$root" before "$step/undo" kill; interrupted 137 "$root" "kill before $step/undo" rollback
    if [ "$step" = install ]; then
      inject "$root" mid "$step/undo" kill; interrupted 137 "$root" "kill in $step/undo" rollback
    fi
    inject "$root" after "$step/undo" kill; interrupted 137 "$root" "kill after $step/undo" rollback
    expect 1 "$root" apply --resume
  done
  expect 0 "$root" rollback
  same "$work/before" "$root" "interrupted way back"
  expect 1 "$root" rollback
}

# The printed script does the same, there and back.
test_script() {
  local root=$work/script
  copy "$work/root" "$root"
  "$program" driver plan --root "$root" --script >"$root/plan.sh"
  if chroot "$root" /bin/sh /plan.sh undo >"$root.out" 2>&1; then die "the script undid what it never did"; fi
  same "$work/before" "$root" "script that had nothing to undo"
  chroot "$root" /bin/sh /plan.sh >"$root.out" 2>&1 || { cat "$root.out" >&2; die "the script failed"; }
  same "$work/after" "$root" "script"
  chroot "$root" /bin/sh /plan.sh undo >"$root.out" 2>&1 || { cat "$root.out" >&2; die "the script failed on the way back"; }
  same "$work/before" "$root" "script, on the way back"
}

test_reboot() {
  local root=$work/reboot
  copy "$work/root" "$root"
  expect 0 "$root" apply --through-reboot
  grep -q 'reboot now' "$root.out" || die "reboot: not told"
  expect 1 "$root" apply --resume
  # The machine goes down, and comes up with the new module.
  echo boot-2 >"$root/proc/sys/kernel/random/boot_id"
  : >"$root/proc/modules"
  chroot "$root" /bin/sh -c 'modprobe nvidia; modprobe nvidia_uvm; systemctl start display-manager'
  expect 0 "$root" apply --resume
  same "$work/after" "$root" "through a reboot"
}

# Without interruption; its end is what all others must come to.
test_applied() {
  copy "$work/root" "$work/applied"
  expect 0 "$work/applied" apply
  state "$work/applied" >"$work/after"
  local wanted
  for wanted in 'nvidia-open amd64 580.126.09-1 hold ok installed' 'nvidia-fabricmanager amd64 580.126.09-1' 'trainer amd64 1.0 install' \
    'Open Kernel Module for x86_64  580.126.09' '^display-manager$' '^nvidia-persistenced$'; do
    grep -q "$wanted" "$work/after" || { cat "$work/applied.out" >&2; die "after the run there is no '$wanted'"; }
  done
  grep -q 'nvidia-driver amd64' "$work/after" && die "the old driver is still there"
  "$program" driver history --root "$work/applied" >"$work/history"; grep -q completed "$work/history" || die "history does not tell of the run"
  "$program" driver status --root "$work/applied" >"$work/status" || { cat "$work/status" >&2; die "status finds something wrong"; }
  grep -q 'loaded *580.126.09' "$work/status" && grep -q 'module *open' "$work/status" || die "status does not see the new driver"
}

[ -e build/driver-root.tar ] || make_root
mkdir "$work/root"
tar -C "$work/root" -xpf build/driver-root.tar
furnish "$work/root"
state "$work/root" >"$work/before"
stage "the root is there; applying once"
test_applied
stage "interruptions at every step"
in_background test_refusals
in_background test_backward
in_background test_script
in_background test_reboot
test_forward
wait
[ ! -e "$failures" ] || { cat "$failures" >&2; die "not all of it held"; }
stage "driver test passed: $places ways back, every step interrupted, script, reboot, refusals"
