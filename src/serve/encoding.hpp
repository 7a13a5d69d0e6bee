// SPDX-License-Identifier: Apache-2.0
// Answers for those who ask: compressed, and errors as a page for people. Pure.
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/serve/http.hpp"

namespace gpuwarden::serve {

/// Whether an Accept-Encoding header takes gzip ("gzip", "*", but not "gzip;q=0").
bool takes_gzip(std::string_view accept_encoding);
/// As one gzip member (RFC 1952), quickly rather than small. Empty where memory is lacking.
std::string gzip(std::string_view text);
/// Compresses what is text, long enough to gain by it, not compressed yet, and asked for so.
void compress(Response& response, const Request& request);
/// Makes of an error in JSON a page, for a browser that asks for something outside of the API.
void make_readable(Response& response, const Request& request);

}  // namespace gpuwarden::serve
