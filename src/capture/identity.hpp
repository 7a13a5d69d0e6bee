// SPDX-License-Identifier: Apache-2.0
// What several formats say in their own words: modes, process types, times, MIG profiles; and what a model's name adds.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

/// "Default", "Exclusive_Process", "E. Process", "Prohibited".
std::optional<facts::ComputeMode> compute_mode_of(std::string_view cell);
/// Sets compute, graphics and mps from "C", "G", "C+G", "M+C".
void set_type(facts::GpuProcess& process, std::string_view type);
/// "Wed Sep 25 10:40:24 2024" and "2024/01/16 14:44:16.977", read as UTC: captures do not name their time zone.
std::optional<std::chrono::system_clock::time_point> time_of(std::string_view cell);
/// "560.94" of "32.0.15.6094", as Windows numbers NVIDIA's drivers; nothing for other numbers.
std::optional<std::string> driver_of_windows(std::string_view number);
/// Whether a text is the name of a GPU, and no sentence about one: "NVIDIA A10G", "GeForce RTX 2080", "AMD Instinct
/// MI300X", "Orin (nvgpu)".
bool is_name_of_gpu(std::string_view text);
/// Fills compute capability, multiprocessors and cores from the model table, and the vendor from the name.
void complete_from_model(facts::Gpu& gpu);
/// Sets state, cause and next step where cells say that the whole GPU is in trouble: "GPU is lost", "GPU requires
/// reset", or nothing but "Unknown Error" and "ERR!" where a GPU reads its temperature, power and memory.
void note_trouble(const std::vector<std::string>& cells, facts::GpuRecord& record);
/// The same for a GPU that a failure line names.
void set_not_answering(facts::GpuRecord& record, std::string_view cause);

/// "3g.40gb" where the capture does not name the profile. Compute slices are seventh parts of the multiprocessors,
/// memory slices eighth parts of the memory (source: NVIDIA's MIG user guide), named by the GPU's size in GB.
std::optional<std::string> mig_profile_of(const facts::Gpu& gpu, const facts::MigDevice& mig,
                                          std::optional<double> slices, const std::optional<Bytes>& whole);

}  // namespace gpuwarden::capture
