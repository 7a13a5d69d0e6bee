# SPDX-License-Identifier: Apache-2.0
# libcurl is opened when it is needed (src/net): it brings twenty libraries. Most commands work without it, so the
# package only recommends it.
find_package(CURL REQUIRED)
gpuwarden_opened_library(LIBCURL ${CURL_LIBRARIES} src/net/libcurl.cpp libcurl4-openssl-dev)
