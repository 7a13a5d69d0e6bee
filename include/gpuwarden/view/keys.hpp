// SPDX-License-Identifier: Apache-2.0
// What keys do: one table, from which the help follows.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "gpuwarden/view/key.hpp"
#include "gpuwarden/view/scene.hpp"
#include "gpuwarden/view/state.hpp"

namespace gpuwarden::view {

/// Where a key means something; a row may be for several.
enum KeyContext : unsigned {
  on_overview = 1,
  on_detail = 2,
  on_alerts = 4,
  on_help = 8,
  everywhere = 15,
};

/// What a key's action looks at beside the state that it changes.
struct Situation {
  const Scene& scene;
  const Rows& rows;
  Extent extent;
};

struct KeyRow {
  std::array<KeyCode, 4> keys;
  unsigned contexts = everywhere;
  std::string_view help;
  void (*apply)(ViewState&, const Situation&);
};
std::span<const KeyRow> key_rows();

/// Changes the state as the key says; an unknown key changes nothing but takes the message away.
void apply(const Key& key, ViewState& state, const Scene& scene, Extent extent);

/// Sets the filter; fails with invalid_argument, and the old one stays. Empty: none.
Result<void> set_filter(ViewState& state, std::string_view text);

}  // namespace gpuwarden::view
