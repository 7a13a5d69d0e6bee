// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/simulator.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/own_files.hpp"

namespace gpuwarden::machine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kControlProfile = 550;

/// The library has one fleet for the whole process. A forked child has none yet: its parent's connection is not its
/// own.
std::atomic<pid_t> user{0};
std::atomic<const Simulator*> holder{nullptr};

}  // namespace

SimulatorPlaces simulator_places(const Environment& environment) {
  const auto value = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  return {value("GPUWARDEN_SIM_LIB_DIR"), value("GPUWARDEN_SIM_DIR")};
}

Result<std::unique_ptr<Simulator>> Simulator::open(const SimulatorPlaces& places) {
  std::unique_ptr<Simulator> simulator(new Simulator());
  simulator->libraries_ = places.libraries.empty() ? own_file("sim") : places.libraries;
  const fs::path library = simulator->library(kControlProfile);
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return fail(ErrorCode::unavailable,
                fmt::format("the simulator cannot be opened: {}", why != nullptr ? why : library.string()),
                "install it beside the program, or name its folder with GPUWARDEN_SIM_LIB_DIR");
  }
  simulator->call_ = reinterpret_cast<int (*)(const char*, char**)>(::dlsym(handle, "gpuwarden_sim_call"));
  if (simulator->call_ == nullptr)
    return fail(ErrorCode::unavailable, library.string() + " is not a gpuwarden simulator");
  if (user.exchange(::getpid()) == ::getpid()) {
    simulator->call_ = nullptr;
    return fail(ErrorCode::unavailable, "a simulated fleet is open in this process already",
                "close it first: the simulator has one fleet at a time");
  }
  holder = simulator.get();
  return simulator;
}

Simulator::~Simulator() {
  // What is destroyed in a forked child is its parent's; the child may have a fleet of its own by now.
  if (call_ == nullptr || holder != this || user != ::getpid()) return;
  [[maybe_unused]] const auto detached = call({{"op", "detach"}});
  holder = nullptr;
  user = 0;
}

fs::path Simulator::library(int profile) const { return libraries_ / std::to_string(profile) / "libnvidia-ml.so.1"; }

Result<Json> Simulator::call(const Json& request) {
  char* reply = nullptr;
  call_(request.dump(-1, ' ', false, Json::error_handler_t::replace).c_str(), &reply);
  const std::unique_ptr<char, void (*)(void*)> owner(reply, std::free);
  Json answer = reply != nullptr ? Json::parse(reply, nullptr, false) : Json();
  if (!answer.is_object()) return fail(ErrorCode::failed, "the simulator gave no answer");
  if (!answer.contains("error")) return answer;
  const bool unfound = answer.value("code", "") == "not_found" || answer.value("code", "") == "invalid_argument";
  return fail(unfound ? ErrorCode::invalid_argument : ErrorCode::failed, answer["error"].get<std::string>(),
              answer.value("hint", ""));
}

Result<void> Simulator::declare(Pid process, const std::vector<std::string>& gpus, const SimulatedLoad& load) {
  GPUWARDEN_TRY([[maybe_unused]] const Json declared, call({{"op", "declare"},
                                                            {"pid", process.value},
                                                            {"gpus", gpus},
                                                            {"memory_bytes", load.memory.value},
                                                            {"utilization_percent", load.utilization.value}}));
  return {};
}

}  // namespace gpuwarden::machine
