// SPDX-License-Identifier: Apache-2.0
// What concerns the library itself: initialisation, version, names of errors, entry points, control.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "gpuwarden/base/text.hpp"
#include "sim/cuda/control.hpp"
#include "sim/cuda/driver.hpp"
#include "sim/cuda/entry_points.hpp"

namespace gpuwarden::cuda {
namespace {

using namespace server;

struct ErrorRow {
  Result code;
  const char* name;
  const char* text;
};

constexpr auto kErrors = std::to_array<ErrorRow>({
#define GPUWARDEN_CUDA_ERROR(code, name, text) {code, #name, text},
#include "nvidia/cuda_errors.inc"
#undef GPUWARDEN_CUDA_ERROR
});

const ErrorRow* error_row(Result code) {
  const auto* const found = std::ranges::find(kErrors, code, &ErrorRow::code);
  return found == kErrors.end() ? nullptr : &*found;
}

/// 12040 of "12.4".
int version_of(std::string_view text) {
  const auto parts = split(text, '.');
  const auto major = parse_integer(parts[0]).value_or(12);
  const auto minor = parts.size() > 1 ? parse_integer(parts[1]).value_or(0) : 0;
  return static_cast<int>(major * 1000 + minor * 10);
}

int driver_version() {
  Driver& d = driver();
  const std::scoped_lock lock(d.mutex);
  const sim::Fleet* fleet = attach(d);
  return fleet != nullptr ? version_of(fleet->spec().cuda) : 0;
}

/// The variant of a function that a program built for a CUDA version means: the newest that version knew.
const EntryPoint* find_variant(std::string_view base, std::string_view suffix, int version) {
  const EntryPoint* best = nullptr;
  for (const EntryPoint& entry : entry_points()) {
    if (entry.base == base && entry.suffix == suffix && entry.since <= version &&
        (best == nullptr || entry.since > best->since))
      best = &entry;
  }
  return best;
}

Result proc_address(const char* symbol, void** function, int version, std::uint64_t flags, int* status) {
  if (symbol == nullptr || function == nullptr || flags > kProcPerThreadStream) return kInvalidValue;
  *function = nullptr;
  if (status != nullptr) *status = kProcSymbolNotFound;
  const std::string_view base(symbol);
  const int newest = driver_version();
  const int limit = std::min(version, newest);
  const EntryPoint* found = nullptr;
  if (flags == kProcPerThreadStream) {
    found = find_variant(base, "ptsz", limit);
    if (found == nullptr) found = find_variant(base, "ptds", limit);
  }
  if (found == nullptr) found = find_variant(base, "", limit);
  if (found != nullptr) {
    *function = found->address;
    if (status != nullptr) *status = kProcFound;
    return kSuccess;
  }
  const bool newer = find_variant(base, "", newest) != nullptr;
  if (status != nullptr && newer) *status = kProcVersionNotSufficient;
  // The older form says so by its result; the newer one by its status.
  return status != nullptr ? kSuccess : kNotFound;
}

}  // namespace

extern "C" {

Result cuInit(unsigned flags) { return flags != 0 ? kInvalidValue : initialise(); }

Result cuDriverGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = driver_version();
  return kSuccess;
}

Result cuGetErrorName(Result code, const char** name) {
  if (name == nullptr) return kInvalidValue;
  const ErrorRow* row = error_row(code);
  *name = row != nullptr ? row->name : nullptr;
  return row != nullptr ? kSuccess : kInvalidValue;
}

Result cuGetErrorString(Result code, const char** text) {
  if (text == nullptr) return kInvalidValue;
  const ErrorRow* row = error_row(code);
  *text = row != nullptr ? row->text : nullptr;
  return row != nullptr ? kSuccess : kInvalidValue;
}

Result cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags) {
  return proc_address(symbol, function, version, flags, nullptr);
}

Result cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t flags, int* status) {
  int unused = 0;
  return proc_address(symbol, function, version, flags, status != nullptr ? status : &unused);
}

}  // extern "C"

namespace server {

extern "C" int gpuwarden_sim_call(const char* request, char** reply) {
  if (request == nullptr || reply == nullptr) return 2;
  const std::string answer = control_driver(request);
  *reply = ::strdup(answer.c_str());
  return answer.starts_with("{\"code\":") && answer.find("\"error\":") != std::string::npos ? 1 : 0;
}

}  // namespace server
}  // namespace gpuwarden::cuda
