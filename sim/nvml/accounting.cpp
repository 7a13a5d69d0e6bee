// SPDX-License-Identifier: Apache-2.0
// Accounting mode: what processes did on a GPU, also after they have ended.
#include "sim/core/accounting.hpp"

#include <algorithm>
#include <vector>

#include "sim/core/settings.hpp"
#include "sim/nvml/context.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace server;
using sim::Field;

constexpr unsigned long long kTickMs = 100;

struct Accounts {
  std::vector<sim::Account> rows;  ///< newest first
  std::uint64_t tick = 0;
};

/// Not supported while accounting is off, as with real drivers.
Return accounts_of(Device device, Accounts& accounts) {
  int mode = 0;
  if (const Return code = number(device, Field::accounting, &mode); code != kSuccess) return code;
  if (mode == 0) return kNotSupported;
  const auto handle = to_handle(device);
  const auto done = fleet()->update([&](sim::Body& body, const sim::FleetSpec& spec) {
    const bool is_news = sim::record_processes(body, spec);
    accounts.tick = body.tick;
    for (std::uint32_t i = 0; i < body.account_count; ++i) {
      if (body.accounts[i].gpu == handle->gpu) accounts.rows.push_back(body.accounts[i]);
    }
    return is_news;
  });
  std::ranges::sort(accounts.rows, std::ranges::greater{}, &sim::Account::number);
  return done ? kSuccess : kUnknown;
}

}  // namespace

extern "C" {

// What was seen before belongs to the mode before.
Return nvmlDeviceSetAccountingMode(Device device, int mode) {
  return change_gpu(device, [&](sim::Body& body, const sim::FleetSpec&, const Target& target) {
    if (mode != 0 && mode != 1) return kInvalidArgument;
    const auto now = sim::at(target.gpu->readings, Field::accounting);
    if (!now) return kNotSupported;
    if (*now != mode) sim::forget_processes(body, target.handle.gpu);
    return sim::pin(body, target.handle.gpu, Field::accounting, mode) ? kSuccess : kInsufficientResources;
  });
}

Return nvmlDeviceClearAccountingPids(Device device) {
  return change_gpu(device, [](sim::Body& body, const sim::FleetSpec&, const Target& target) {
    if (!sim::at(target.gpu->readings, Field::accounting)) return kNotSupported;
    sim::forget_processes(body, target.handle.gpu);
    return kSuccess;
  });
}

Return nvmlDeviceGetAccountingBufferSize(Device device, unsigned* size) {
  int mode = 0;
  if (size == nullptr) return kInvalidArgument;
  *size = sim::kMaxAccounts;
  return number(device, Field::accounting, &mode);
}

Return nvmlDeviceGetAccountingPids(Device device, unsigned* count, unsigned* pids) {
  if (count == nullptr) return kInvalidArgument;
  Accounts accounts;
  if (const Return code = accounts_of(device, accounts); code != kSuccess) return code;
  const unsigned room = *count;
  *count = static_cast<unsigned>(accounts.rows.size());
  if (room < accounts.rows.size() || (pids == nullptr && !accounts.rows.empty())) return kInsufficientSize;
  for (std::size_t i = 0; i < accounts.rows.size(); ++i) pids[i] = static_cast<unsigned>(accounts.rows[i].pid);
  return kSuccess;
}

Return nvmlDeviceGetAccountingStats(Device device, unsigned pid, AccountingStats* out) {
  if (out == nullptr) return kInvalidArgument;
  Accounts accounts;
  if (const Return code = accounts_of(device, accounts); code != kSuccess) return code;
  const auto found = std::ranges::find(accounts.rows, static_cast<std::int32_t>(pid), &sim::Account::pid);
  if (found == accounts.rows.end()) return kNotFound;
  *out = {};
  out->gpu_utilization = found->utilization;
  out->max_memory_usage = found->max_memory;
  out->start_time = found->started * kTickMs * 1000;
  out->is_running = found->ended == 0 ? 1 : 0;
  out->time = found->ended == 0 ? 0 : (found->ended - std::min(found->started, found->ended)) * kTickMs;
  return kSuccess;
}

}  // extern "C"
}  // namespace gpuwarden::nvml
