// SPDX-License-Identifier: Apache-2.0
// The control calls of a simulator's library, from a test.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

namespace gpuwarden::testing {

/// Attached to a fleet, which lives at least as long as this object.
class SimControl {
 public:
  SimControl(const std::filesystem::path& library, const std::string& spec) {
    void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return;
    call_ = reinterpret_cast<int (*)(const char*, char**)>(::dlsym(handle, "gpuwarden_sim_call"));
    fleet_ = call({{"op", "attach"}, {"spec", spec}});
  }
  SimControl(const SimControl&) = delete;
  SimControl& operator=(const SimControl&) = delete;
  ~SimControl() { call({{"op", "detach"}}); }

  nlohmann::json call(const nlohmann::json& request) const {
    char* reply = nullptr;
    if (call_ == nullptr) return {{"error", "no simulator"}};
    call_(request.dump().c_str(), &reply);
    const std::unique_ptr<char, void (*)(void*)> owner(reply, std::free);
    return reply == nullptr ? nlohmann::json() : nlohmann::json::parse(reply, nullptr, false);
  }
  void fault(std::uint32_t gpu, const std::string& fault) const {
    const auto reply = call({{"op", "fault"}, {"gpu", gpu}, {"fault", fault}});
    EXPECT_FALSE(reply.contains("error")) << reply.dump();
  }
  std::filesystem::path proc_root() const { return fleet_.value("proc_root", ""); }
  /// What other processes find the fleet by.
  std::string folder() const { return fleet_.value("folder", ""); }

 private:
  int (*call_)(const char*, char**) = nullptr;
  nlohmann::json fleet_;
};

}  // namespace gpuwarden::testing
