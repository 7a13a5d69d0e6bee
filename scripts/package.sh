#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the .deb packages from build/release and proves them: unpacked elsewhere, the program must work.
source "$(dirname "$0")/lib.sh"
need_packages "${build_packages[@]}" file dpkg-dev
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
# What the program contains comes with its terms.
for library in $(ldd "$root/usr/bin/gpuwarden" | grep -q 'libre2' || echo fmt yaml-cpp pugixml re2 stdc++) nlohmann-json; do
  ls "$root"/usr/share/doc/gpuwarden/copyright.*"$library"* >/dev/null
done
say "packages are fine: $(cd build/release && ls ./*.deb | tr '\n' ' ')"
