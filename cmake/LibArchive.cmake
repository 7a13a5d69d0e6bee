# SPDX-License-Identifier: Apache-2.0
# libarchive is opened when it is needed (gpuwarden/base/libarchive.hpp).
find_package(LibArchive REQUIRED)
gpuwarden_opened_library(LIBARCHIVE ${LibArchive_LIBRARIES} src/base/libarchive.cpp libarchive-dev)
