// SPDX-License-Identifier: Apache-2.0
// libcurl, opened when it is first needed: it brings twenty libraries, and most commands ask nobody anything.
#pragma once

#define CURL_DISABLE_TYPECHECK  // its macros are not for functions by pointer
#include <curl/curl.h>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::net {

/// The functions of libcurl that are used here.
struct LibCurl {
  // clang-format off
#define GPUWARDEN_CURL_FUNCTIONS(X) \
  X(easy_init) X(easy_setopt) X(easy_getinfo) X(easy_cleanup) X(easy_strerror) X(global_init) X(slist_append) \
  X(slist_free_all) X(multi_init) X(multi_cleanup) X(multi_add_handle) X(multi_remove_handle) X(multi_perform) \
  X(multi_poll) X(multi_wakeup) X(multi_info_read)
// clang-format on
#define GPUWARDEN_CURL_MEMBER(name) decltype(&::curl_##name) name = nullptr;
  GPUWARDEN_CURL_FUNCTIONS(GPUWARDEN_CURL_MEMBER)
#undef GPUWARDEN_CURL_MEMBER
};

/// The library that the headers are of, opened once and never closed; fails with unavailable where it is not installed
/// or lacks a function. Threads may call it.
Result<const LibCurl*> libcurl();
/// The same of a file; for tests.
Result<LibCurl> open_libcurl(const char* file);

}  // namespace gpuwarden::net
