// SPDX-License-Identifier: Apache-2.0
// Answers about compatibility, for people.
#pragma once

#include <string>

#include "gpuwarden/compat/question.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

std::string compat_text(const compat::Asked& asked, const compat::Answer& answer, const Style& style);
std::string xid_text(const compat::XidAnswer& answer, const Style& style);
/// What the answer says, one source to a line.
std::string sources_text(const compat::Verdict& verdict, const Style& style);

}  // namespace gpuwarden::cli
