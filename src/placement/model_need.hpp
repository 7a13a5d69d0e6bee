// SPDX-License-Identifier: Apache-2.0
// How many of which devices a model takes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuwarden/placement/model_fit.hpp"
#include "placement/candidates.hpp"

namespace gpuwarden::placement {

/// Devices of which any `count` will do.
struct ModelChoice {
  std::vector<Candidate> devices;
  std::size_t count = 1;
  ModelFit fit;
  std::string fewer;   ///< what would be on one less; may be empty
  bool mixed = false;  ///< the devices are of different kinds
};

/// The work behind a request; empty where it has none. Fails with invalid_argument on a model size that no model has,
/// and on settings that contradict themselves.
Result<std::optional<planning::Workload>> work_of(const Request& request);

/// One request's model on devices. Who may have which device is settled before.
class ModelNeed {
 public:
  /// Both outlive this object. `as_if_free`: devices offer what they have in all, not what is free.
  ModelNeed(const planning::Workload& work, const Wanted& wanted, bool as_if_free = false);

  /// The devices to choose from, and how many to take. Empty: the model does not fit.
  std::optional<ModelChoice> choose(std::span<const Candidate> devices) const;
  /// How far the model is from fitting: on as many devices as were asked for, of one kind or, where none has
  /// as many, of all; else on as many as there are of the kind with the most room. Empty where there are none or too
  /// few, or where they cannot share it at all.
  std::optional<ModelFit> nearest(std::span<const Candidate> devices) const;
  /// The kind with the most room together, as many as were asked for or as there are; count 0 where there is none.
  planning::GpuGroup largest_kind(std::span<const Candidate> devices) const;
  /// How the model fits those devices that were taken.
  ModelFit on_taken(const ModelChoice& choice, std::span<const Candidate> taken) const;

  /// What a device offers to the model; 0: nothing.
  Bytes room_of(const Candidate& device) const;
  /// GPUs that NVLink joins where so many of a machine are used.
  std::uint32_t node_of(std::size_t count) const;

 private:
  /// Devices that are looked at together, those with the most room first.
  struct Kind {
    std::vector<Candidate> devices;
    planning::GpuGroup group;
    bool mixed = false;
  };

  Kind kind_of(std::vector<Candidate> devices) const;
  std::vector<Kind> kinds_of(std::span<const Candidate> devices) const;
  const Kind* largest(const std::vector<Kind>& kinds) const;
  std::vector<std::uint32_t> counts_for(std::size_t devices) const;
  std::optional<ModelFit> fit_on(const Kind& kind, std::size_t count) const;
  ModelFit fit_of(const Kind& kind, std::size_t count, planning::Candidate candidate) const;
  std::optional<ModelChoice> choose_of(const Kind& kind) const;
  std::optional<ModelChoice> choose_instances(std::span<const Candidate> devices) const;
  /// False where the plan leaves some of the GPUs idle.
  bool uses_all(const ModelFit& fit) const;
  bool will_do(const ModelFit& fit, const Candidate& device) const;
  std::size_t preferred(const ModelChoice& choice) const;
  std::string fewer_words(const Kind& kind, std::size_t count) const;
  std::string sentence(const ModelFit& fit) const;

  const planning::Workload& work_;
  const Wanted& wanted_;
  planning::ModelFigures figures_;
  bool as_if_free_;
};

}  // namespace gpuwarden::placement
