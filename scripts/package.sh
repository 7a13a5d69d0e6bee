#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the .deb packages from build/release and proves them: unpacked elsewhere, the program must work.
source "$(dirname "$0")/lib.sh"
need_packages "${build_packages[@]}" "${page_packages[@]}" file dpkg-dev
[ -d build/release ] || cmake --preset release >/dev/null
cmake --build build/release -j "$jobs" -- --quiet
(cd build/release && rm -f ./*.deb && cpack -G DEB >/dev/null)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
for deb in build/release/*.deb; do
  dpkg-deb -I "$deb" | grep -E '^ (Package|Version|Depends)'
  dpkg-deb -x "$deb" "$root"
done
GPUWARDEN_SIM_DIR="$root/sim" "$root/usr/bin/gpuwarden" list --simulate h100x8 --json >"$root/list.json"
grep -q '"simulated": *true' "$root/list.json"
test -f "$root/usr/lib/tmpfiles.d/gpuwarden.conf"
test -x "$root/usr/libexec/gpuwarden/gpuwarden-serve"
# /var/lib/gpuwarden is root's and is read by everybody: a service that had it for its own would hide it.
grep -qx 'StateDirectory=gpuwarden-serve' "$root/usr/lib/systemd/system/gpuwarden-serve.service"
# What the program contains comes with its terms.
contained=(nlohmann-json)
if ! ldd "$root/usr/bin/gpuwarden" | grep -q libre2; then  # linked as archives, not as shared libraries
  contained+=(fmt yaml-cpp pugixml re2 sqlite3 zlib ncurses stdc++)
fi
for library in "${contained[@]}"; do
  ls "$root"/usr/share/doc/gpuwarden/copyright.*"$library"* >/dev/null
done
say "packages are fine: $(cd build/release && ls ./*.deb | tr '\n' ' ')"
