// SPDX-License-Identifier: Apache-2.0
#include "sim/core/accounting.hpp"

#include <algorithm>

#include "sim/core/evolve.hpp"
#include "sim/core/settings.hpp"

namespace gpuwarden::sim {
namespace {

bool is_accounted(const GpuView& gpu) { return at(gpu.readings, Field::accounting).value_or(0) != 0; }

Account* running(Body& body, std::uint32_t gpu, std::int32_t pid) {
  return std::find_if(body.accounts, body.accounts + body.account_count, [&](const Account& account) {
    return account.gpu == gpu && account.pid == pid && account.ended == 0;
  });
}

Account* new_account(Body& body) {
  if (body.account_count < kMaxAccounts) return &body.accounts[body.account_count++];
  return std::ranges::min_element(body.accounts, {}, &Account::number);
}

bool record(Body& body, std::uint32_t gpu, const ProcessView& process) {
  Account* account = running(body, gpu, process.pid);
  const bool is_new = account == body.accounts + body.account_count;
  if (is_new) {
    account = new_account(body);
    *account = {.pid = process.pid, .gpu = gpu, .started = body.tick, .number = ++body.account_number};
  }
  const Account before = *account;
  account->max_memory = std::max<std::uint64_t>(account->max_memory, process.memory_bytes.value_or(0));
  account->utilization = std::max(account->utilization, process.utilization);
  return is_new || account->max_memory != before.max_memory || account->utilization != before.utilization;
}

bool close_ended(Body& body, std::uint32_t gpu, const GpuView& view) {
  bool changed = false;
  for (std::uint32_t i = 0; i < body.account_count; ++i) {
    Account& account = body.accounts[i];
    if (account.gpu != gpu || account.ended != 0) continue;
    if (std::ranges::count(view.processes, account.pid, &ProcessView::pid) > 0) continue;
    account.ended = std::max<std::uint64_t>(body.tick, 1);
    changed = true;
  }
  return changed;
}

}  // namespace

bool record_processes(Body& body, const FleetView& view) {
  bool changed = false;
  for (std::uint32_t i = 0; i < view.gpus.size(); ++i) {
    if (!is_accounted(view.gpus[i])) continue;
    for (const ProcessView& process : view.gpus[i].processes) changed |= record(body, i, process);
    changed |= close_ended(body, i, view.gpus[i]);
  }
  return changed;
}

bool record_processes(Body& body, const FleetSpec& spec) {
  for (std::uint32_t i = 0; i < spec.gpus.size(); ++i) {
    if (setting(body, spec, i, Field::accounting, 0) != 0) return record_processes(body, look(body, spec));
  }
  return false;
}

void forget_processes(Body& body, std::uint32_t gpu) {
  auto* const end = std::remove_if(body.accounts, body.accounts + body.account_count,
                                   [&](const Account& account) { return account.gpu == gpu; });
  body.account_count = static_cast<std::uint32_t>(end - body.accounts);
}

}  // namespace gpuwarden::sim
