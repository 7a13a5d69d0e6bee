// SPDX-License-Identifier: Apache-2.0
#include "capture/identity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/gpu_models.hpp"

namespace gpuwarden::capture {

std::optional<facts::ComputeMode> compute_mode_of(std::string_view cell) {
  using facts::ComputeMode;
  const std::string mode = to_lower(trim(cell));
  if (mode == "default") return ComputeMode::shared;
  if (mode == "exclusive_process" || mode == "exclusive process" || mode == "e. process")
    return ComputeMode::exclusive_process;
  if (mode == "exclusive_thread" || mode == "exclusive thread" || mode == "e. thread")
    return ComputeMode::exclusive_thread;
  if (mode == "prohibited") return ComputeMode::prohibited;
  return std::nullopt;
}

void set_type(facts::GpuProcess& process, std::string_view type) {
  process.compute = type.contains('C');
  process.graphics = type.contains('G');
  process.mps = type.contains('M');
}

std::optional<std::chrono::system_clock::time_point> time_of(std::string_view cell) {
  const std::string text(trim(cell));
  for (const char* format : {"%a %b %d %H:%M:%S %Y", "%Y/%m/%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"}) {
    std::tm parts{};
    const char* end = ::strptime(text.c_str(), format, &parts);
    if (end == nullptr || (*end != '\0' && *end != '.')) continue;
    if (parts.tm_year < 100 || parts.tm_year > 200) continue;  // 2000 to 2100
    return std::chrono::system_clock::from_time_t(::timegm(&parts));
  }
  return std::nullopt;
}

// source: NVIDIA's driver for Windows: 536.23 is 31.0.15.3623 in its nv_disp.inf (DriverVer), in Device Manager and in
// dxdiag, 560.94 is 32.0.15.6094
std::optional<std::string> driver_of_windows(std::string_view number) {
  const auto parts = split(number, '.');
  if (parts.size() != 4 || parts[2].size() < 2 || parts[3].size() != 4) return std::nullopt;
  for (const std::string_view part : parts) {
    if (part.empty() || part.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  }
  const std::string digits = std::string(1, parts[2].back()) + std::string(parts[3]);
  return digits.substr(0, 3) + "." + digits.substr(3);
}

bool is_name_of_gpu(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  constexpr std::size_t kMostWords = 9;
  constexpr std::string_view kBeginnings[] = {"NVIDIA ", "GeForce ", "Tesla ",  "Quadro ",        "GRID ",   "TITAN ",
                                              "Titan ",  "RTX ",     "GTX ",    "AMD ",           "Radeon ", "Intel",
                                              "Orin",    "Xavier",   "Jetson ", "Graphics Device"};
  constexpr std::string_view kOfSentences[] = {", ", ": ", "; ", "? ", " or ", " with ", " is ", " not ", " and "};
  constexpr std::string_view kNoModels[] = {"driver", "drivers", "device", "gpu", "gpus", "card", "graphics", "kernel"};
  const auto words = split_words(text);
  if (words.empty() || words.size() > kMostWords || text.size() > kLongest) return false;
  // "A10G", "H100": of servers, whose maker is left out by some.
  const bool server = words[0].size() >= 2 && std::string_view("AHLBTVPK").contains(words[0][0]) &&
                      words[0][1] >= '0' && words[0][1] <= '9';
  const auto begins = [&](std::string_view start) { return text.starts_with(start); };
  if (!server && std::ranges::none_of(kBeginnings, begins)) return false;
  if (std::ranges::any_of(kOfSentences, [&](std::string_view part) { return text.contains(part); })) return false;
  return !text.starts_with("NVIDIA ") || words.size() < 2 ||
         std::ranges::find(kNoModels, to_lower(words[1])) == std::end(kNoModels);
}

void complete_from_model(facts::Gpu& gpu) {
  const auto* model = knowledge::find_gpu_model(gpu.name);
  if (model == nullptr) return;
  if (!gpu.architecture) gpu.architecture = std::string(model->architecture);
  if (!gpu.compute_capability)
    gpu.compute_capability = facts::ComputeCapability{model->capability_major, model->capability_minor};
  if (!gpu.multiprocessors && model->multiprocessors > 0) gpu.multiprocessors = Count(model->multiprocessors);
  if (!gpu.cuda_cores && model->cuda_cores > 0) gpu.cuda_cores = Count(model->cuda_cores);
}

void set_not_answering(facts::GpuRecord& record, std::string_view cause) {
  record.state = facts::GpuState::not_answering;
  record.cause = std::string(cause);
  record.next_step = "look for its Xid in the kernel log (dmesg | grep -i xid); a reset or a reboot usually helps";
}

void note_trouble(const std::vector<std::string>& cells, facts::GpuRecord& record) {
  const auto count = [&](std::string_view words) {
    return std::ranges::count_if(cells, [&](const std::string& cell) { return cell.contains(words); });
  };
  if (count("GPU is lost") > 0) {
    record.state = facts::GpuState::lost;
    record.cause = "the GPU is lost: it fell off the PCIe bus (nvidia-smi: GPU is lost)";
    record.next_step = "look for its Xid in the kernel log (dmesg | grep -i xid), then reboot the machine";
  } else if (count("equires reset") + count("Reset Required") > 0) {
    record.state = facts::GpuState::needs_reset;
    record.cause = "the GPU needs a reset before it can be used";
    record.next_step =
        "end its processes, then: sudo nvidia-smi --gpu-reset -i " + std::to_string(record.gpu.index.value);
  } else if (count("Unknown Error") + count("ERR!") >= 3) {
    set_not_answering(record, "nvidia-smi shows errors for its readings");
  }
}

std::optional<std::string> mig_profile_of(const facts::Gpu& gpu, const facts::MigDevice& mig,
                                          std::optional<double> slices, const std::optional<Bytes>& whole) {
  if (!mig.memory_total || !whole || whole->value == 0) return std::nullopt;
  const double share = ratio(*mig.memory_total, *whole);
  const double eighths = std::max(1.0, std::round(share * 8));
  const double whole_gb = std::round(static_cast<double>(whole->value) / (1 << 30) / 10) * 10;
  if (!slices && !mig.multiprocessors) return std::nullopt;
  const double per_slice =
      knowledge::mig_slice_multiprocessors(gpu.compute_capability ? gpu.compute_capability->major : 8);
  const double compute =
      slices ? *slices : std::clamp(std::floor(static_cast<double>(mig.multiprocessors->value) / per_slice), 1.0, 7.0);
  return fmt::format("{:.0f}g.{:.0f}gb", compute, std::floor(whole_gb * eighths / 8));
}

}  // namespace gpuwarden::capture
