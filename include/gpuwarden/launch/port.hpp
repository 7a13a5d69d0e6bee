// SPDX-License-Identifier: Apache-2.0
// Ports at which ranks meet.
#pragma once

#include <cstdint>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::launch {

/// A free port that no other launcher of this network namespace is given while this lives. The port itself is bound
/// until hand_over(), so that no stranger takes it before rank 0 can.
class HeldPort {
 public:
  /// Drawn at random from [15000, start of the ephemeral range). Fails with unavailable.
  static Result<HeldPort> any();
  /// This one. Fails with unavailable where somebody has it.
  static Result<HeldPort> at(std::uint16_t port);
  std::uint16_t number() const { return number_; }
  /// Takes connections until hand_over(), so that others can try whether they reach it; the socket to accept them from.
  Result<int> listen();
  /// From here on rank 0 may bind it.
  void hand_over() { bound_.reset(); }

 private:
  HeldPort(std::uint16_t number, UniqueFd name, UniqueFd bound)
      : number_(number), name_(std::move(name)), bound_(std::move(bound)) {}
  std::uint16_t number_;
  UniqueFd name_;   ///< bound to the port's name among launchers
  UniqueFd bound_;  ///< the port
};

/// Whether a program can listen there. Fails with unavailable where somebody else does, permission_denied.
Result<void> check_port(std::uint16_t port);

}  // namespace gpuwarden::launch
