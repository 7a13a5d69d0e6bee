// SPDX-License-Identifier: Apache-2.0
// Proofs that functions speak of the fleet: what one answers, a change of the fleet's state, what it answers then.
#pragma once

#include <fmt/format.h>

#include <tuple>

#include "sim_nvml/client.hpp"

namespace gpuwarden::nvml {

struct Proof {
  const char* symbol;
  /// Calls the function on GPU 0 and tells the answer, or "error N".
  std::string (*read)(const Nvml& nvml, Device device);
  std::string before;
  Json change;  ///< a control request; null: the other fleet takes this one's place
  std::string after;
};

std::vector<Proof> system_proofs();
std::vector<Proof> identity_proofs();
std::vector<Proof> reading_proofs();
std::vector<Proof> process_proofs();
std::vector<Proof> mig_and_link_proofs();
std::vector<Proof> detail_proofs();

inline Json set(const char* field, double value) {
  return {{"op", "set"}, {"gpu", 0}, {"field", field}, {"value", value}};
}
inline Json fault(const char* what) { return {{"op", "fault"}, {"gpu", 0}, {"fault", what}}; }

template <class... Values>
std::string say(Return code, const Values&... values) {
  if (code != kSuccess) return fmt::format("error {}", code);
  std::string text;
  ((text += fmt::format("{}{}", text.empty() ? "" : " ", values)), ...);
  return text;
}

template <class Function>
struct Signature;
template <class Result, class... Parameters>
struct Signature<Result (*)(Parameters...)> {
  using Last = std::remove_pointer_t<std::tuple_element_t<sizeof...(Parameters) - 1, std::tuple<Parameters...>>>;
};

/// Calls a function of (device, args..., one number to fill).
template <auto function, auto... args>
std::string number(const Nvml& nvml, Device device) {
  using Pointer = std::remove_cvref_t<decltype(nvml.*function)>;
  typename Signature<Pointer>::Last value{};
  const Return code = (nvml.*function)(device, args..., &value);
  return say(code, value);
}

/// Calls a function of (device, buffer, its length).
template <auto function>
std::string text(const Nvml& nvml, Device device) {
  std::array<char, 128> buffer{};
  const Return code = (nvml.*function)(device, buffer.data(), static_cast<unsigned>(buffer.size()));
  return say(code, buffer.data());
}

/// Calls a function of (device, two numbers to fill).
template <auto function>
std::string two_numbers(const Nvml& nvml, Device device) {
  using Pointer = std::remove_cvref_t<decltype(nvml.*function)>;
  typename Signature<Pointer>::Last first{};
  typename Signature<Pointer>::Last second{};
  const Return code = (nvml.*function)(device, &first, &second);
  return say(code, first, second);
}

}  // namespace gpuwarden::nvml
