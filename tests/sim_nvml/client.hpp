// SPDX-License-Identifier: Apache-2.0
// A client of the simulated NVML, as strange as any: it opens the library of one driver profile and looks symbols up.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "nvidia/nvml_abi.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::nvml {

using Json = nlohmann::json;

inline constexpr std::array kProfiles{418, 450, 470, 535, 550, 580};

/// One row of the table of functions: who calls it, or what an unsupported one's first argument is.
struct Symbol {
  const char* name;
  int since;
  int until = 999;
  enum class Kind { called, simulated, device, pointer, number } kind = Kind::called;
};
inline constexpr auto kSymbols = std::to_array<Symbol>({
#define GPUWARDEN_NVML_FUNCTION(result, symbol, since, parameters) {#symbol, since},
#define GPUWARDEN_NVML_SIMULATED(result, symbol, since, parameters) {#symbol, since, 999, Symbol::Kind::simulated},
#define GPUWARDEN_NVML_UNSUPPORTED(symbol, since, until, first) {#symbol, since, until, Symbol::Kind::first},
#include "nvidia/nvml_functions.inc"
});

/// All functions of a library; those that its driver did not have are null.
struct Functions {
#define GPUWARDEN_NVML_FUNCTION(result, symbol, since, parameters) result(*symbol) parameters = nullptr;
#define GPUWARDEN_NVML_SIMULATED(result, symbol, since, parameters) result(*symbol) parameters = nullptr;
#include "nvidia/nvml_functions.inc"
};

inline std::filesystem::path library_of(int profile) {
  return std::filesystem::path(GPUWARDEN_SIM_LIB_DIR) / std::to_string(profile) / "libnvidia-ml.so.1";
}

/// The library of a profile with all its functions.
class Nvml : public Functions {
 public:
  explicit Nvml(int profile) : library_(::dlopen(library_of(profile).c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
#define GPUWARDEN_NVML_FUNCTION(result, symbol, since, parameters) look_up(symbol, #symbol);
#define GPUWARDEN_NVML_SIMULATED(result, symbol, since, parameters) look_up(symbol, #symbol);
#include "nvidia/nvml_functions.inc"
    look_up(control_, "gpuwarden_sim_call");
  }

  /// Sends a control request; its reply, with "error" in it where it was refused.
  Json call(const Json& request) const {
    char* reply = nullptr;
    control_(request.dump().c_str(), &reply);
    const std::unique_ptr<char, decltype(&std::free)> owner(reply, &std::free);
    return reply == nullptr ? Json{{"error", "no reply"}} : Json::parse(reply);
  }

  /// A function by its name alone, called with one argument; the others are 0. It has another type: that is meant.
#ifdef __clang__
  __attribute__((no_sanitize("function")))
#endif
  Return
  call_blindly(const char* name, const void* first) const {
    const auto function =
        reinterpret_cast<Return (*)(const void*, void*, void*, void*, void*, void*)>(::dlsym(library_, name));
    return function == nullptr ? kFunctionNotFound : function(first, nullptr, nullptr, nullptr, nullptr, nullptr);
  }

  Device gpu(unsigned index) const {
    Device device = nullptr;
    EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(index, &device), kSuccess) << "GPU " << index;
    return device;
  }

 private:
  template <class Function>
  void look_up(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
  }

  void* library_;  // never closed: other tests of this process use it, too
  int (*control_)(const char*, char**) = nullptr;
};

/// A test with fleets of its own.
class Simulated : public ::testing::Test {
 protected:
  Simulated() { ::setenv("GPUWARDEN_SIM_DIR", (dir_ / "sim").c_str(), 1); }
  ~Simulated() override {
    for (const auto& [profile, library] : open_) {
      for (int i = 0; i < 100 && library->nvmlShutdown() == kSuccess; ++i) continue;
      library->call({{"op", "detach"}});
    }
  }

  /// Opens a profile's library on a preset or on a fleet given as YAML; does not initialise NVML.
  const Nvml& open(int profile, const std::string& fleet) {
    auto& library = open_[profile];
    if (!library) library = std::make_unique<Nvml>(profile);
    const std::string spec = fleet.find('\n') == std::string::npos ? fleet : write_fleet(fleet);
    const Json reply = library->call({{"op", "attach"}, {"spec", spec}});
    EXPECT_FALSE(reply.contains("error")) << reply.dump();
    folder_ = reply.value("folder", "");
    return *library;
  }
  /// The same, initialised.
  const Nvml& start(const std::string& fleet, int profile = 580) {
    const Nvml& library = open(profile, fleet);
    EXPECT_EQ(library.nvmlInit_v2(), kSuccess);
    return library;
  }
  std::string write_fleet(const std::string& yaml) const {
    testing::put(dir_ / "fleet.yaml", yaml);
    return (dir_ / "fleet.yaml").string();
  }
  /// The folder of the fleet attached to last.
  const std::filesystem::path& folder() const { return folder_; }

 private:
  testing::TempDir dir_;
  std::filesystem::path folder_;
  std::map<int, std::unique_ptr<Nvml>> open_;
};

}  // namespace gpuwarden::nvml
