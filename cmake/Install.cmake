# SPDX-License-Identifier: Apache-2.0
# Installed libraries are found by find_package(gpuwarden); the package is built by CPack.
