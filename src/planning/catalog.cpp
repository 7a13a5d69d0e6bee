// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <ranges>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/model_catalog.hpp"
#include "gpuwarden/planning/config.hpp"

namespace gpuwarden::planning {
namespace {

using knowledge::CatalogModel;

/// What says how a model was trained or stored, not what shape it has. Before any that is the end of it.
constexpr std::string_view kEndings[] = {"bnb4bit", "4bit", "8bit", "instruct", "preview", "uncased", "chat",
                                         "base",    "gptq", "awq",  "int4",     "int8",    "fp8",     "sft",
                                         "dpo",     "v01",  "v02",  "hf",       "it",      "pt"};
constexpr std::size_t kLongestName = 200;

/// Letters and digits of the name behind the publisher, in small letters.
std::string bare(std::string_view name) {
  if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::string result;
  for (const char c : to_lower(name)) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) result += c;
  }
  return result;
}

std::string without_endings(std::string name) {
  bool again = true;
  while (again) {
    again = false;
    for (const std::string_view ending : kEndings) {
      if (name.size() <= ending.size() + 2 || !name.ends_with(ending)) continue;
      name.resize(name.size() - ending.size());
      again = true;
    }
  }
  return name;
}

std::vector<std::string_view> names_of(const CatalogModel& model) {
  std::vector<std::string_view> names{model.name};
  for (const auto alias : split_words(model.aliases)) names.push_back(alias);
  return names;
}

template <class Same>
const CatalogModel* find_if_named(Same same) {
  for (const CatalogModel& model : knowledge::model_catalog()) {
    if (std::ranges::any_of(names_of(model), same)) return &model;
  }
  return nullptr;
}

/// The whole name first, then without the publisher, then without endings: the closest meaning wins.
const CatalogModel* find_row(std::string_view name) {
  if (name.size() > kLongestName) return nullptr;
  const std::string lower = to_lower(trim(name));
  if (const auto* row = find_if_named([&](std::string_view known) { return to_lower(known) == lower; })) return row;
  const std::string wanted = bare(name);
  if (wanted.empty()) return nullptr;
  if (const auto* row = find_if_named([&](std::string_view known) { return bare(known) == wanted; })) return row;
  const std::string stem = without_endings(wanted);
  return find_if_named([&](std::string_view known) { return without_endings(bare(known)) == stem; });
}

/// Letters to insert, delete or change (Levenshtein) between two short texts.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

/// The names most like it, nearest first: about a third of the letters may differ.
std::string similar_names(std::string_view name) {
  constexpr std::size_t kMost = 5;
  const std::string wanted = without_endings(bare(name.substr(0, kLongestName)));
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const CatalogModel& model : knowledge::model_catalog()) {
    const std::size_t away = distance(wanted, without_endings(bare(model.name)));
    if (3 * away <= wanted.size() + 1) near.emplace_back(away, model.name);
  }
  std::ranges::stable_sort(near, {}, &std::pair<std::size_t, std::string>::first);
  std::vector<std::string> names;
  for (const auto& [away, known] : near | std::views::take(kMost)) names.push_back(known);
  return names.empty() ? "gpuwarden plan --list shows all names" : "known: " + join(names, ", ");
}

}  // namespace

Result<ModelShape> find_model(std::string_view name) {
  const CatalogModel* const row = find_row(name);
  if (row == nullptr)
    return fail(ErrorCode::not_found,
                fmt::format("no model '{}' in the catalogue", printable(name.substr(0, kLongestName))),
                fmt::format("give its config.json, or only its size; {}", similar_names(name)));
  GPUWARDEN_TRY(ModelShape model, read_config(row->config, row->name, row->family));
  model.name = row->name;
  model.source = row->source;
  return model;
}

std::vector<std::string> catalog_names() {
  std::vector<std::string> names;
  for (const CatalogModel& model : knowledge::model_catalog()) names.emplace_back(model.name);
  return names;
}

}  // namespace gpuwarden::planning
