// SPDX-License-Identifier: Apache-2.0
#include "plan/workload.hpp"

#include <fmt/format.h>

#include "gpuwarden/manager/models.hpp"
#include "options.hpp"
#include "plan/workload_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr Clash kClashes[] = {{"model", "model-size", "a model has its own size"},
                              {"model-size", "family", "a shape that is guessed from a size is Llama's"}};

}  // namespace

planning::Words words_of(const Args& args, const std::vector<std::string>& besides) {
  planning::Words words("--");
  const auto add = [&](const std::string& key, OptionKind kind) {
    if (!args.has(key)) return;
    const auto text = kind == OptionKind::flag ? std::nullopt : args.text(key);
    words.set(key, kind == OptionKind::list ? args.list(key)
                   : text                   ? std::vector<std::string>{*text}
                                            : std::vector<std::string>{});
  };
  for (const Option& option : kWorkloadOptions) add(key_of(option), option.kind);
  for (const std::string& key : besides) add(key, OptionKind::text);
  return words;
}

bool is_single(const Args& args) { return planning::normal_word(args.text("strategy").value_or("")) == "single"; }

Result<planning::ModelShape> read_model(const Args& args, const std::string& name) {
  return manager::load_model(name, args.text("family").value_or(""), manager::model_downloads(current_environment()));
}

Result<std::optional<planning::Workload>> read_model_request(const Args& args) {
  GPUWARDEN_CHECK(check_clashes(args, kClashes));
  const planning::Words words = words_of(args, {"model-size"});
  if (args.has("model-size")) return planning::workload_of_size(words, "model-size");
  if (!args.has("model")) {
    const auto names = words.names();
    if (names.empty()) return std::nullopt;
    return fail(ErrorCode::invalid_argument, fmt::format("--{} is about a model, but none is named", names.front()),
                "add --model NAME, --model config.json or --model-size 7B");
  }
  GPUWARDEN_CHECK(planning::refuse_sizes(words, "model-size"));
  GPUWARDEN_TRY(planning::ModelShape model, read_model(args, *args.text("model")));
  return planning::workload_from(std::move(model), words, "train");
}

}  // namespace gpuwarden::cli
