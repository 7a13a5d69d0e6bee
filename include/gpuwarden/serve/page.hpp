// SPDX-License-Identifier: Apache-2.0
// The page that the server shows, as files that the build put into the program.
#pragma once

#include <span>
#include <string_view>

namespace gpuwarden::serve {

/// One file of the page.
struct PageFile {
  std::string_view path;          ///< as it is asked for: "/", "/app.js"
  std::string_view content_type;  ///< "text/html; charset=utf-8"
  std::string_view bytes;
  std::string_view etag;  ///< with its double quotes; changes with the bytes
};

/// All files of the page, "/" among them; none where the build had no way to make it.
std::span<const PageFile> page_files();

}  // namespace gpuwarden::serve
