// SPDX-License-Identifier: Apache-2.0
#include "sim_nvml/proof.hpp"

namespace gpuwarden::nvml {
namespace {

template <auto function>
std::string system_text(const Nvml& nvml, Device) {
  std::array<char, 128> buffer{};
  const Return code = (nvml.*function)(buffer.data(), static_cast<unsigned>(buffer.size()));
  return say(code, buffer.data());
}

template <auto function, class Number>
std::string system_number(const Nvml& nvml, Device) {
  Number value{};
  const Return code = (nvml.*function)(&value);
  return say(code, value);
}

std::string process_name(const Nvml& nvml, Device) {
  std::array<char, 64> buffer{};
  const Return code = nvml.nvmlSystemGetProcessName(4194001, buffer.data(), buffer.size());
  return say(code, buffer.data());
}

/// The UUID behind the handle that a look-up gives.
template <auto function, class Key>
std::string found(const Nvml& nvml, Key key) {
  Device device = nullptr;
  const Return code = (nvml.*function)(key, &device);
  return code == kSuccess ? text<&Functions::nvmlDeviceGetUUID>(nvml, device) : say(code);
}
template <auto function, unsigned index>
std::string by_index(const Nvml& nvml, Device) {
  return found<function>(nvml, index);
}

template <auto function>
std::string init(const Nvml& nvml, Device) {
  const Return code = (nvml.*function)();
  return say(code, "ready");
}
std::string init_with_flags(const Nvml& nvml, Device) {
  const Return code = nvml.nvmlInitWithFlags(kInitFlagNoGpus);
  return say(code, "ready");
}

}  // namespace

std::vector<Proof> system_proofs() {
  using F = Functions;
  const std::string uuid = "GPU-11111111-2222-3333-4444-555555555555";
  const std::string other = "GPU-99999999-2222-3333-4444-555555555555";
  constexpr auto serial = [](const Nvml& n, Device) {
    return found<&F::nvmlDeviceGetHandleBySerial>(n, "1320000000001");
  };
  constexpr auto by_uuid = [](const Nvml& n, Device) {
    return found<&F::nvmlDeviceGetHandleByUUID>(n, "GPU-11111111-2222-3333-4444-555555555555");
  };
  // Upper and lower case, 4 and 8 digits of the domain are all understood.
  constexpr auto bus = [](const Nvml& n, Device) {
    return found<&F::nvmlDeviceGetHandleByPciBusId>(n, "0001:4c:00.0");
  };
  constexpr auto bus_v2 = [](const Nvml& n, Device) {
    return found<&F::nvmlDeviceGetHandleByPciBusId_v2>(n, "00000000:17:00.0");
  };
  return {
      {"nvmlInit", init<&F::nvmlInit>, "ready", fault("driver_not_loaded"), "error 9"},
      {"nvmlInit_v2", init<&F::nvmlInit_v2>, "ready", fault("mismatch"), "error 18"},
      {"nvmlInitWithFlags", init_with_flags, "ready", fault("mismatch"), "error 18"},
      {"nvmlSystemGetNVMLVersion", system_text<&F::nvmlSystemGetNVMLVersion>, "13.580.65.06", nullptr, "12.570.86.10"},
      {"nvmlSystemGetDriverVersion", system_text<&F::nvmlSystemGetDriverVersion>, "580.65.06", nullptr, "570.86.10"},
      {"nvmlSystemGetCudaDriverVersion", system_number<&F::nvmlSystemGetCudaDriverVersion, int>, "13000", nullptr,
       "12080"},
      {"nvmlSystemGetCudaDriverVersion_v2", system_number<&F::nvmlSystemGetCudaDriverVersion_v2, int>, "13000", nullptr,
       "12080"},
      {"nvmlSystemGetProcessName", process_name, "python train.py", nullptr, "python serve.py"},
      {"nvmlDeviceGetCount", system_number<&F::nvmlDeviceGetCount, unsigned>, "2", nullptr, "3"},
      {"nvmlDeviceGetCount_v2", system_number<&F::nvmlDeviceGetCount_v2, unsigned>, "2", nullptr, "3"},
      {"nvmlDeviceGetHandleByIndex", by_index<&F::nvmlDeviceGetHandleByIndex, 0>, uuid, nullptr, other},
      {"nvmlDeviceGetHandleByIndex_v2", by_index<&F::nvmlDeviceGetHandleByIndex_v2, 0>, uuid, fault("lost"),
       "error 15"},
      {"nvmlDeviceGetHandleByIndex_v2", by_index<&F::nvmlDeviceGetHandleByIndex_v2, 7>, "error 2", nullptr, "error 2"},
      {"nvmlDeviceGetHandleBySerial", serial, uuid, nullptr, "error 6"},
      {"nvmlDeviceGetHandleByUUID", by_uuid, uuid, nullptr, "error 6"},
      {"nvmlDeviceGetHandleByPciBusId", bus, "error 6", nullptr, other},
      {"nvmlDeviceGetHandleByPciBusId_v2", bus_v2, uuid, nullptr, "error 6"},
  };
}

}  // namespace gpuwarden::nvml
