// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/jobs/gpus_from.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/jobs/run_values.hpp"
#include "gpuwarden/lease/lease_store.hpp"
#include "gpuwarden/placement/selection.hpp"
#include "gpuwarden/planning/words.hpp"

namespace gpuwarden::jobs {
namespace {

using machine::ReservationRequest;
using placement::Request;

constexpr auto kWaiting = std::to_array<ValueName>({{"wait", ValueKind::duration}, {"priority", ValueKind::count}});

/// What the model's options say about the number of GPUs.
Result<void> heed_model(const NamedValues& values, Request& request) {
  static constexpr auto kClashes =
      std::to_array<Clash>({{"model-size", "family", "a shape that is guessed from a size is Llama's"}});
  GPUWARDEN_CHECK(check_clashes(values, kClashes));
  if (!request.work || planning::normal_word(values.text("strategy").value_or("")) != "single") return {};
  if (request.count.value_or(1) > 1 || request.gpu_ids.size() > 1 || request.all)
    return values.refuse("--strategy single is one GPU, but more are asked for", "leave out one of the two");
  if (request.gpu_ids.empty()) request.count = 1;
  return {};
}

/// As many GPUs as ranks where nothing else says how many, or which: a rank takes LOCAL_RANK as its device's number, as
/// under torchrun.
Result<void> count_ranks(const NamedValues& values, Request& request) {
  const bool said = request.count || !request.gpu_ids.empty() || request.all || request.work || request.force_cpu;
  if (said) return {};
  GPUWARDEN_TRY(request.count, several_ranks(values));
  return {};
}

Result<void> read_waiting(const NamedValues& values, ReservationRequest& wanted) {
  if (values.has("wait")) {
    GPUWARDEN_TRY(const auto wait, duration_option(values, "wait"));
    wanted.wait = wait.value_or(std::chrono::milliseconds::max());
  }
  const auto text = values.text("priority");
  if (!text) return {};
  const auto number = parse_integer(*text);
  if (!number || *number < -lease::kMostPriority || *number > lease::kMostPriority)
    return values.refuse(fmt::format("--priority: '{}' is not a whole number from {} to {}", printable(*text),
                                     -lease::kMostPriority, lease::kMostPriority));
  if (!values.has("wait")) return values.refuse("--priority requires --wait", "it orders your own waiting jobs");
  wanted.priority = static_cast<std::int32_t>(*number);
  return {};
}

}  // namespace

std::span<const ValueName> waiting_names() { return kWaiting; }

Result<void> check_which_gpus(const NamedValues& values) {
  static constexpr auto kClashes = std::to_array<Clash>({{"all", "num-gpus", "leave out one of the two"}});
  return check_clashes(values, kClashes);
}

Result<ReservationRequest> gpus_from(const NamedValues& values, Request request) {
  // A model does not replace them: it asks whether so many, or these, will do.
  if (values.has("gpu-ids") || values.has("num-gpus") || values.has("all")) {
    request.gpu_ids.clear();
    request.count.reset();
  }
  ReservationRequest wanted;
  wanted.gpus = std::move(request);
  // A device's number is no name of a GPU beside which a range means nothing.
  NamedValues others = values;
  others.forget("device");
  GPUWARDEN_CHECK(placement::apply_selection(others, wanted.gpus));
  GPUWARDEN_TRY(wanted.least, placement::apply_count(values, wanted.gpus));
  GPUWARDEN_CHECK(placement::apply_selection(values, wanted.gpus));
  GPUWARDEN_CHECK(heed_model(values, wanted.gpus));
  GPUWARDEN_CHECK(count_ranks(values, wanted.gpus));
  GPUWARDEN_CHECK(read_waiting(values, wanted));
  return wanted;
}

}  // namespace gpuwarden::jobs
