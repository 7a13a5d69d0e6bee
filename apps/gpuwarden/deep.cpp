// SPDX-License-Identifier: Apache-2.0
#include "deep.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "acquire.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/deep/deep.hpp"
#include "gpuwarden/launch/job.hpp"
#include "gpuwarden/placement/select.hpp"
#include "options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr std::uint32_t kLongest = 86'400;

const std::string* variable(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? nullptr : &found->second;
}

Result<void> need_deep(const Args& args) {
  for (const auto* key : {"deep-seconds", "deep-memory", "gpus", "force"}) {
    if (args.has(key) && !args.has("deep"))
      return fail(ErrorCode::invalid_argument, fmt::format("--{} goes with --deep", key),
                  "gpuwarden doctor --deep ...");
  }
  return {};
}

/// The GPUs of --gpus, named as everywhere.
Result<std::vector<Uuid>> chosen(const Context& context, const facts::Snapshot& snapshot) {
  placement::Request request;
  for (const std::string& name : context.args.list("gpus")) request.gpu_ids.push_back({name});
  if (request.gpu_ids.empty()) return std::vector<Uuid>{};
  request.shared = true;
  request.allow_busy = true;
  const std::vector<facts::Lease> leases;
  const std::vector<Uuid> spoken_for;
  GPUWARDEN_TRY(const auto decision, placement::select(request, {snapshot, leases, spoken_for,
                                                                 placement::visibility_from(context.environment)}));
  if (!decision.satisfied) return fail(ErrorCode::unsatisfied, "--gpus: " + decision.missing);
  std::vector<Uuid> uuids;
  for (const placement::Device& device : decision.selected) uuids.push_back(device.uuid);
  return uuids;
}

/// Where toolkits have their cuBLAS, which is not always on the loader's path.
void add_cublas_of_toolkits(const facts::Snapshot& snapshot, std::vector<std::filesystem::path>& libraries) {
  if (!snapshot.environment) return;
  for (const auto& toolkit : snapshot.environment->toolkits) {
    if (!toolkit.path.empty()) libraries.push_back(std::filesystem::path(toolkit.path) / "lib64/libcublas.so");
  }
}

Result<deep::Options> read_options(const Context& context, const facts::Snapshot& snapshot) {
  deep::Options options;
  GPUWARDEN_TRY(const auto seconds, count_option(context.args, "deep-seconds", kLongest));
  if (seconds) options.deadline = std::chrono::seconds(std::max(*seconds, 1U));
  GPUWARDEN_TRY(const auto percent, count_option(context.args, "deep-memory", 95));
  if (percent) options.memory_share = *percent / 100.0;
  options.force = context.args.has("force");
  GPUWARDEN_TRY(options.gpus, chosen(context, snapshot));
  add_cublas_of_toolkits(snapshot, options.cublas);
  if (const auto* library = variable(context.environment, "GPUWARDEN_CUDA_LIBRARY")) {
    options.library = *library;
    options.stand_in = true;
    // The system's cuBLAS would go to the system's driver.
    options.cublas.clear();
  }
  if (const auto* library = variable(context.environment, "GPUWARDEN_CUBLAS_LIBRARY")) options.cublas = {*library};
  return options;
}

/// Why this machine's GPUs are not the ones that are looked at.
std::optional<std::string> elsewhere(const Context& context, const Machine& machine, bool stand_in) {
  if (machine.captured) return "a capture is looked at, and only this machine's GPUs can be put to work";
  if (machine.simulated() && !stand_in) return "the fleet is simulated: it computes nothing";
  const auto root = context.args.text("root");
  if (root && *root != "/")
    return fmt::format("{} is looked at, and only this machine's GPUs can be put to work", *root);
  return std::nullopt;
}

/// Whether it is the lease of the run in which this program was started.
bool is_own(const facts::Lease& lease, const Environment& environment) {
  const auto* run = variable(environment, "GPUWARDEN_RUN_ID");
  return run != nullptr &&
         std::ranges::any_of(lease.holders, [&](const auto& holder) { return holder.run_id == *run; });
}

std::string holder_of(const facts::Lease& lease) {
  if (lease.holders.empty()) return "it is reserved";
  const auto& holder = lease.holders.front();
  return printable(fmt::format("it is reserved by {} (pid {}): {}", holder.user, holder.pid.value, holder.command));
}

lease::Device device_named(const std::vector<lease::Device>& devices, const Uuid& uuid) {
  const auto found = std::ranges::find(devices, uuid, &lease::Device::uuid);
  return found == devices.end() ? lease::Device{uuid, {}} : *found;
}

/// Reserves the GPUs for the length of the test, and leaves those alone that others have reserved. Where there are no
/// leases (no directory, no right), there is nobody to take them from.
std::optional<lease::HeldLeases> reserve(const Context& context, const Machine& machine,
                                         const facts::Snapshot& snapshot, deep::Options& options) {
  const auto store = open_leases(context, machine, launch::make_run_id(), "gpuwarden doctor --deep");
  if (!store) return std::nullopt;
  const auto wanted = [&](const Uuid& uuid) {
    return options.gpus.empty() || std::ranges::find(options.gpus, uuid) != options.gpus.end();
  };
  const auto devices = devices_of(machine, snapshot);
  auto held = store->claim(devices, [&](const lease::Situation& situation) -> Result<lease::Choice> {
    lease::Choice choice;
    for (const auto& record : snapshot.gpus) {
      const Uuid& uuid = record.gpu.uuid;
      const auto taken = std::ranges::find(situation.leases, uuid, &facts::Lease::uuid);
      if (taken != situation.leases.end() && is_own(*taken, context.environment)) continue;
      if (taken != situation.leases.end())
        options.reserved.emplace_back(uuid, holder_of(*taken));
      else if (wanted(uuid) && facts::is_usable(record))
        choice.devices.push_back(device_named(devices, uuid));
    }
    return choice;
  });
  if (!held) return std::nullopt;
  return std::move(*held);
}

const facts::GpuRecord* find(const facts::Snapshot& snapshot, const Uuid& uuid) {
  const auto is_it = [&](const facts::GpuRecord& record) {
    return record.gpu.uuid == uuid ||
           std::ranges::any_of(record.mig_devices, [&](const auto& mig) { return mig.uuid == uuid; });
  };
  const auto found = std::ranges::find_if(snapshot.gpus, is_it);
  return found == snapshot.gpus.end() ? nullptr : &*found;
}

deep::Listener listener(const Machine& machine) {
  deep::Listener listener;
  // One reader for all moments: its connection to the driver stays open.
  const auto reader = std::make_shared<probe::MachineReader>(machine.reader);
  listener.observe = [reader](const Uuid& uuid) -> std::optional<facts::GpuRecord> {
    const auto now = reader->read({.detail = probe::Detail::full, .processes = false});
    const auto* record = find(now, uuid);
    return record == nullptr ? std::nullopt : std::optional(*record);
  };
  if (::isatty(STDERR_FILENO) != 0)
    listener.progress = [](std::string_view what) { fmt::print(stderr, "gpuwarden: {} ...\n", printable(what)); };
  return listener;
}

}  // namespace

Result<std::optional<facts::DeepRun>> run_deep(const Context& context, const Machine& machine,
                                               const facts::Snapshot& snapshot, const knowledge::Knowledge& knowledge) {
  GPUWARDEN_CHECK(need_deep(context.args));
  if (!context.args.has("deep")) return std::nullopt;
  const bool stand_in = variable(context.environment, "GPUWARDEN_CUDA_LIBRARY") != nullptr;
  if (auto why = elsewhere(context, machine, stand_in)) {
    facts::DeepRun run;
    run.not_possible = std::move(why);
    return run;
  }
  GPUWARDEN_TRY(deep::Options options, read_options(context, snapshot));
  const auto held = reserve(context, machine, snapshot, options);
  return deep::run(snapshot, knowledge, options, listener(machine));
}

}  // namespace gpuwarden::cli
