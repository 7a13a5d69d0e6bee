// SPDX-License-Identifier: Apache-2.0
// The shell functions that the steps of a driver plan share. POSIX sh; $B is the run's folder of records. Every
// function may be cut off anywhere and run again: what is recorded is written beside and renamed, what exists is not
// made anew.
#pragma once

#include <string_view>

namespace gpuwarden::driver {

/// Package names that belong to the driver, as a `case` pattern of the shell: first those that do not.
inline constexpr std::string_view kNotDriverPackages =
    "nvidia-container-*|libnvidia-container*|nvidia-docker*|nvidia-cuda-*|nvidia-cudnn*|nvidia-nsight*|nvidia-profiler|"
    "nvidia-visual-profiler|nvidia-openjdk-*|libnvidia-ml-dev|nvidia-dcgm*|nvidia-cg-*|nvidia-texture-tools|"
    "libnvidia-egl-*";
inline constexpr std::string_view kDriverPackages =
    "nvidia-*|libnvidia-*|nvidia|libcuda1|libcudadebugger1|cuda-drivers*|xserver-xorg-video-nvidia*|"
    "firmware-nvidia-*|libnvcuvid1|libnvoptix1|libxnvctrl0|libgl1-nvidia*|libegl-nvidia*|libgles-nvidia*|"
    "libglx-nvidia*|libegl1-nvidia*|libgles1-nvidia*|libgles2-nvidia*|linux-modules-nvidia-*|linux-objects-nvidia-*|"
    "linux-signatures-nvidia-*|nvlsm|kmod-nvidia*|xorg-x11-drv-nvidia*|xorg-x11-nvidia*|dkms-nvidia|akmod-nvidia*|"
    "cuda-compat-driver*|libnvsdm*";

inline constexpr std::string_view kCommonShell = R"sh(export LC_ALL=C
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
say() { printf '%s\n' "$*"; }
die() { printf '%s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }
loaded() { grep -q "^$1 " /proc/modules 2>/dev/null; }
# Who has a GPU's device file open.
holders() { ls -l /proc/[0-9]*/fd 2>/dev/null | awk '/^\/proc\//{split($0,p,"/")} /-> \/dev\/nvidia[0-9]/{print p[3]}' | sort -u; }
active() { has systemctl && systemctl is-active --quiet "$1" 2>/dev/null; }
stop() { ! active "$1" || systemctl stop "$1"; }
was_active() { grep -qx "$1" "$B/services"; }
start_again() { if was_active "$1" && ! active "$1"; then systemctl start "$1"; fi; }
unload() {
  for module in nvidia_uvm nvidia_drm nvidia_modeset nvidia_peermem nvidia; do
    ! loaded "$module" || modprobe -r "$module" || die "the module $module is in use and cannot be unloaded; end what uses it, or plan with --through-reboot"
  done
}
# Configuration that speaks of the driver: what is restored byte by byte on the way back.
configuration() {
  for file in /etc/X11/xorg.conf /root/.nvidia-settings-rc /home/*/.nvidia-settings-rc; do [ ! -f "$file" ] || say "$file"; done
  for folder in /etc/X11/xorg.conf.d /etc/modprobe.d /etc/modules-load.d /etc/modules /etc/nvidia /etc/udev/rules.d \
    /etc/dracut.conf.d /etc/initramfs-tools /etc/default/grub /etc/apt/preferences.d /etc/apt/sources.list.d \
    /etc/yum.repos.d /etc/zypp/repos.d /etc/zypp/locks /etc/dnf/plugins /etc/dnf/modules.d /etc/systemd/system \
    /etc/ld.so.conf.d; do
    [ -e "$folder" ] || continue
    grep -rlIis -e nvidia -e nouveau "$folder" || true
    find "$folder" -type f -iname '*nvidia*'
  done
}
# "nvidia/580.126.09 KERNEL" for each that is built; dkms 2 writes "nvidia, 580.126.09, KERNEL, ...".
dkms_entries() { ! has dkms || dkms status 2>/dev/null | sed -n 's;^\(nvidia[a-z-]*\)[/,] *\([^,]*\), \([^,]*\),.*: installed.*$;\1/\2 \3;p' | sort -u; }
# Archives the files whose names come in; the archive appears whole or not at all.
pack() {
  sed 's,^/,,' >"$1.list"
  tar -C / -cpf "$1.part" -T "$1.list"
  mv "$1.part" "$1"
}
record_common() {
  { configuration; packaged_configuration; } | sort -u >"$1/configuration"
  pack "$1/configuration.tar" <"$1/configuration"
  for service in display-manager nvidia-persistenced nvidia-fabricmanager nvidia-imex nvidia-dcgm dcgm-exporter nvidia-powerd; do
    ! active "$service" || say "$service"
  done >"$1/services"
  sed -n 's/^\(nvidia[a-z_]*\|nouveau\) .*/\1/p' /proc/modules 2>/dev/null >"$1/modules" || true
  dkms_entries >"$1/dkms"
  { ! has docker || docker ps --format '{{.Names}} {{.Image}}' 2>/dev/null || true; } >"$1/containers"
}
restore_configuration() {
  [ -e "$B/complete" ] || return 0
  for archive in "$B/configuration.tar" "$B"/conffiles-*.tar; do [ ! -e "$archive" ] || tar -C / -xpf "$archive"; done
}
# Two DKMS packages write the same file: the last to leave takes the other's along.
in_place() { ! has modinfo || [ "$(modinfo -k "$2" -F version nvidia 2>/dev/null)" = "${1#*/}" ]; }
# DKMS on the way back: built again for the kernels that had it, and nothing left of the version that leaves.
restore_dkms() {
  [ -e "$B/complete" ] && has dkms || return 0
  dkms_entries | while read -r module kernel; do
    grep -qx "$module $kernel" "$B/dkms" || dkms remove "$module" -k "$kernel" || true
  done
  while read -r module kernel; do
    { dkms_entries | grep -qx "$module $kernel" && in_place "$module" "$kernel"; } || dkms install --force "$module" -k "$kernel" || say "dkms could not build $module for $kernel: see its log"
  done <"$B/dkms"
}
restore_modules() {
  [ -e "$B/complete" ] || return 0
  while read -r module; do loaded "$module" || modprobe "$module" || say "$module could not be loaded; a reboot will do it"; done <"$B/modules"
}
rebuild_initramfs() {
  if has update-initramfs; then update-initramfs -u
  elif has dracut; then dracut --force
  fi
}
# What the .run installer put on the disk, so that it can be put back without the .run file.
runfile_files() {
  for log in /var/lib/nvidia/log /var/lib/nvidia/dirs; do
    [ ! -f "$log" ] || tr ' ' '\n' <"$log" | grep '^/' || true
  done | while read -r file; do [ ! -e "$file" ] && [ ! -L "$file" ] || [ -d "$file" ] || say "$file"; done
  [ ! -e /var/lib/nvidia ] || find /var/lib/nvidia -type f
  for tree in /usr/src/nvidia-[0-9]* /var/lib/dkms/nvidia; do [ ! -d "$tree" ] || find "$tree" ! -type d; done
}
save_runfile() {
  [ ! -e "$B/runfile.tar" ] || return 0
  runfile_files | sort -u | pack "$B/runfile.tar"
}
uninstall_runfile() {
  if has nvidia-uninstall; then nvidia-uninstall --silent
  elif has nvidia-installer; then nvidia-installer --uninstall --silent
  fi
}
restore_runfile() {
  [ -e "$B/runfile.tar" ] || return 0
  tar -C / -xpf "$B/runfile.tar"
  ! has ldconfig || ldconfig
  ! has depmod || depmod -a || true
}
)sh";

inline constexpr std::string_view kAptShell = R"sh(export DEBIAN_FRONTEND=noninteractive
apt_get() { apt-get -y -q -o DPkg::Lock::Timeout=600 -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@"; }
all_packages() { dpkg-query -W -f '${Package}:${Architecture} ${Version} ${db:Status-Abbrev}\n' | sort; }
# Records are written once, before the first change, and never again.
record() {
  [ ! -e "$B/complete" ] || return 0
  rm -rf "$B/part"; mkdir -p "$B/part"
  all_packages >"$B/part/packages"
  dpkg --get-selections >"$B/part/selections"
  apt-mark showauto | sort >"$B/part/auto"
  apt-mark showhold | sort >"$B/part/hold"
  driver_packages <"$B/part/packages" >"$B/part/driver"
  record_common "$B/part"
  mv "$B"/part/* "$B/"; rmdir "$B/part"
  : >"$B/touched"; sync; : >"$B/complete"
}
conffiles_of() { for name in "$@"; do dpkg-query -W -f '${Conffiles}\n' "$name" 2>/dev/null || true; done | awk '$1 ~ /^\// { print $1 }' | while read -r file; do [ ! -f "$file" ] || say "$file"; done; }
packaged_configuration() { conffiles_of $(all_packages | driver_packages | sed 's/ .*//'); }
save_conffiles() { [ -e "$B/conffiles-$1.tar" ] || for name in $(touched); do conffiles_of $(recorded "$name" | cut -d " " -f 1); done | sort -u | pack "$B/conffiles-$1.tar"; }
# Names of all packages that apt would install, upgrade or remove, kept before it does: what the way back looks at.
touch_packages() {
  apt-get -s -q --allow-downgrades --allow-change-held-packages "$@" >"$B/simulated"
  sed -n 's/^\(Inst\|Remv\|Purg\|Conf\) \([^ ]*\).*/\2/p' "$B/simulated" | sed 's/:.*//' >>"$B/touched"
}
touched() { { sed 's/:.*//' "$B/driver"; cat "$B/touched"; all_packages | driver_packages | sed 's/:.*//'; } | sort -u; }
# Of all rows only those of packages that are really there, whatever is wanted of them (purge, cut off, leaves "pi").
recorded() { grep "^$1:" "$B/packages" | grep '^[^ ]* [^ ]* .i ' || true; }
present() { dpkg-query -W -f '${Package}:${Architecture} ${Version} ${db:Status-Abbrev}\n' "$1" 2>/dev/null | grep '^[^ ]* [^ ]* .i ' || true; }
# After dpkg was cut off: what it had half unpacked goes, what it had unpacked is configured.
mend() {
  for name in $(touched); do
    for full in $(dpkg-query -W -f '${Package}:${Architecture}|${db:Status-Abbrev}\n' "$name" 2>/dev/null | grep '|..R' | sed 's/|.*//'); do
      dpkg --remove --force-remove-reinstreq --force-depends "$full" || true
    done
  done
  dpkg --configure -a || true
}
apt_install() {
  mend
  apt_get --fix-broken --allow-downgrades --allow-change-held-packages install "$@"
}
# The packages of today, so that they can come back although no archive has them any more.
save_packages() {
  mkdir -p "$B/archives"
  touched | while read -r name; do
    recorded "$name" | while read -r full version state; do
      arch=${full##*:}
      file="${name}_$(printf '%s' "$version" | sed 's/:/%3a/g')_$arch.deb"
      [ ! -e "$B/archives/$file" ] || continue
      if [ -e "/var/cache/apt/archives/$file" ]; then cp "/var/cache/apt/archives/$file" "$B/archives/$file.part"
      else
        rm -rf "$B/fetch"; mkdir -p "$B/fetch"; chmod 755 "$B/fetch"
        if ! (cd "$B/fetch" && apt-get -q -o APT::Sandbox::User=root download "${full%:all}=$version") && has dpkg-repack; then
          (cd "$B/fetch" && dpkg-repack "${full%:all}")
        fi
        set -- "$B"/fetch/*.deb
        [ -e "$1" ] || { say "$name=$version" >>"$B/unsaved"; continue; }
        mv "$1" "$B/archives/$file.part"
      fi
      mv "$B/archives/$file.part" "$B/archives/$file"
    done
  done
  rm -rf "$B/fetch"
  [ ! -s "$B/unsaved" ] || [ -n "${NO_WAY_BACK:-}" ] || {
    list=$(sort -u "$B/unsaved" | tr '\n' ' '); rm -f "$B/unsaved"
    die "no archive has these packages any more, so that there would be no way back: $list(install dpkg-repack, or --force way-back)"; }
}
# Programs that left only because they need the old driver's libraries come back on the new one's, as configured.
bring_back() {
  for name in $(sort -u "$B/touched"); do
    [ -n "$(recorded "$name")" ] && [ -z "$(present "$name")$(say "$name" | driver_packages)" ] || continue
    apt_get --no-remove install "$name" || { say "$name does not go with the new driver: it stays away"; continue; }
    ! grep -q "^$name\(:.*\)\?$" "$B/auto" || apt-mark auto "$name"
    conffiles_of "$name" | sed 's,^/,,' | while read -r file; do
      ! grep -qxF "$file" "$B/conffiles-remove.tar.list" || tar -C / -xpf "$B/conffiles-remove.tar" "$file"
    done
  done
}
# Brings every touched package to its recorded version, and takes away those that were not there.
restore_packages() {
  [ -e "$B/complete" ] || return 0
  mend
  files='' gone=''
  for name in $(touched); do
    [ "$(recorded "$name" | cut -d ' ' -f 1,2)" != "$(present "$name" | cut -d ' ' -f 1,2)" ] || continue
    for file in "$B/archives/${name}_"*.deb; do [ ! -e "$file" ] || files="$files $file"; done
    for full in $(present "$name" | cut -d ' ' -f 1); do
      recorded "$name" | grep -q "^$full " || gone="$gone ${full%:all}-"
    done
  done
  [ -z "$files$gone" ] || apt_install --no-install-recommends $files $gone
  for name in $(touched); do
    if [ -z "$(grep "^$name:" "$B/packages")" ] && dpkg-query -W "$name" >/dev/null 2>&1; then dpkg --purge "$name"; fi
    [ "$(recorded "$name" | cut -d ' ' -f 1,2)" = "$(present "$name" | cut -d ' ' -f 1,2)" ] || die "$name could not be brought back to what it was"
  done
  restore_configuration
  restore_marks
}
restore_marks() {
  [ -e "$B/complete" ] || return 0
  auto='' manual=''
  for name in $(touched); do
    [ -n "$(present "$name")" ] || continue
    if grep -q "^$name\(:.*\)\?$" "$B/auto"; then auto="$auto $name"; else manual="$manual $name"; fi
    grep "^$name\(:[^[:space:]]*\)\?[[:space:]]" "$B/selections" | dpkg --set-selections || true
  done
  [ -z "$auto" ] || apt-mark auto $auto >/dev/null
  [ -z "$manual" ] || apt-mark manual $manual >/dev/null
}
unhold() { for name in $(touched); do if grep -q "^$name\(:.*\)\?$" "$B/hold"; then apt-mark unhold "$name"; fi; done; }
# Whether these are installed, in the versions that an installation would bring.
settled() {
  for name in "$@"; do [ -n "$(present "${name%%=*}")" ] || return 1; done
  apt-get -s -q --allow-downgrades --allow-change-held-packages install "$@" >"$B/simulated"
  ! grep -q '^\(Inst\|Conf\) ' "$B/simulated"
}
# The driver's packages leave, with their configuration; what else leaves with them is kept for the way back.
remove_driver() {
  mend
  list=$(all_packages | grep -v ' [a-z]c ' | driver_packages | sed -e 's/ .*//' -e 's/:all$//' | grep -v -e -pinning- | sort -u) || true
  [ -n "$list" ] || return 0
  touch_packages purge $list
  save_packages
  save_conffiles remove
  apt_get --fix-broken --allow-change-held-packages purge $list
}
)sh";

inline constexpr std::string_view kRpmShell =
    R"sh(all_packages() { rpm -qa --qf '%{NAME}:%{ARCH} %{EPOCHNUM}:%{VERSION}-%{RELEASE} ii \n' | sort; }
record() {
  [ ! -e "$B/complete" ] || return 0
  rm -rf "$B/part"; mkdir -p "$B/part"
  all_packages >"$B/part/packages"
  driver_packages <"$B/part/packages" >"$B/part/driver"
  record_common "$B/part"
  mv "$B"/part/* "$B/"; rmdir "$B/part"
  : >"$B/touched"; sync; : >"$B/complete"
}
present() { rpm -q "$1" >/dev/null 2>&1; }
packaged_configuration() { for name in $(all_packages | driver_packages | sed 's/:.*//'); do rpm -qc "$name" | grep '^/' || true; done | while read -r file; do [ ! -f "$file" ] || say "$file"; done; }
# full name as rpm prints it: name-version-release.arch
driver_files() { cut -d ' ' -f 1,2 "$B/driver" | sed 's/^\(.*\):\([^ ]*\) \([0-9]*\):\(.*\)$/\1-\4.\2/'; }
remove_driver() {
  list=$(all_packages | driver_packages | sed 's/:.*//' | sort -u)
  [ -z "$list" ] || remove_packages $list
}
saved() { ls "$B/archives" 2>/dev/null | grep -q .; }
save_packages() {
  mkdir -p "$B/archives"
  for package in $(driver_files); do
    [ ! -e "$B/archives/$package.rpm" ] || continue
    fetch_package "$package" || [ -n "${NO_WAY_BACK:-}" ] || die "no repository has $package any more, so that there would be no way back (--force way-back)"
  done
}
# Everything of the driver that is there now and was not goes; then the recorded packages come back from their files.
restore_packages() {
  [ -e "$B/complete" ] || return 0
  all_packages | driver_packages >"$B/now"
  if ! cmp -s "$B/now" "$B/driver"; then
    new=$(cut -d ' ' -f 1,2 "$B/now" | while read -r name version; do grep -q "^$name $version " "$B/driver" || say "${name%%:*}"; done | sort -u)
    [ -z "$new" ] || remove_packages $new
    ! saved || add_files "$B"/archives/*.rpm
    all_packages | driver_packages >"$B/now"
    cmp -s "$B/now" "$B/driver" || die "the driver's packages could not be brought back to what they were: compare $B/driver and $B/now"
  fi
  restore_configuration
}
)sh";

inline constexpr std::string_view kDnfShell = R"sh(fetch_package() { dnf -y download --destdir "$B/archives" "$1"; }
remove_packages() { dnf -y remove "$@"; }
add_files() { dnf -y install --allowerasing "$@"; }
)sh";

inline constexpr std::string_view kZypperShell =
    R"sh(fetch_package() { zypper --non-interactive --pkg-cache-dir "$B/cache" download "$1" && find "$B/cache" -name '*.rpm' -exec mv {} "$B/archives/" \; ; }
remove_packages() { zypper --non-interactive remove "$@"; }
add_files() { zypper --non-interactive install --allow-unsigned-rpm --oldpackage --force "$@"; }
)sh";

}  // namespace gpuwarden::driver
