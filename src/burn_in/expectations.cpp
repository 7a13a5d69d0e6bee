// SPDX-License-Identifier: Apache-2.0
#include "burn_in/expectations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace gpuwarden::burn_in {

namespace {

using facts::BurnInFigure;
using facts::BurnInGpu;
using knowledge::GpuModel;

/// Raw GB/s of a lane, after the encoding of the line: 8b/10b for the first two generations, 128b/130b for the next
/// three, flits for the sixth (source: PCI-SIG, PCI Express base specifications).
constexpr std::array kLaneRates{0.25, 0.5, 0.9846, 1.9692, 3.9385, 7.5625};

/// What is held to be sound, as a share of what is published. Copies lose some of a link to packet headers (about a
/// tenth at 256 bytes of payload) and some of a memory to turning between reading and writing.
constexpr double kPcieShare = 0.7;
constexpr double kBandwidthShare = 0.75;
/// gpuwarden's own choice, as that of PCIe: nothing is published of what copies over NVLink reach.
constexpr double kNvlinkShare = 0.7;
/// Published arithmetic rates are cores times boost clock; boards at their power limit run below that clock.
constexpr double kFp32Share = 0.6;
constexpr double kMatrixShare = 0.5;
/// Boards of at most so many watts (T4, L4, A2) hold less than half of the published tensor rate.
constexpr double kSmallBoardWatts = 100;
constexpr double kSmallBoardShare = 0.3;
/// mma.sync reaches about 62 % of Hopper's published rate, which only wgmma gives (source: Luo et al., "Benchmarking
/// and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking", arXiv 2402.13499).
constexpr double kHopperMmaShare = 0.62;

struct Bar {
  double expected = 0;
  double share = 0;
  std::string source;
};

std::optional<Bar> link_bar(const BurnInGpu& gpu, const facts::GpuRecord& record) {
  // What the link did under the copies counts, for at idle it saves power; unseen, what it can do.
  const auto seen = std::ranges::find(gpu.moments, "pcie", &facts::BurnInMoment::when);
  const bool observed = seen != gpu.moments.end() && seen->pcie_generation;
  const auto generation = observed ? seen->pcie_generation : record.gpu.pcie_generation_max;
  const auto width = observed && seen->pcie_width ? seen->pcie_width
                     : record.sample.pcie_width   ? record.sample.pcie_width
                                                  : record.gpu.pcie_width_max;
  if (!generation || !width) return std::nullopt;
  const auto rate = pcie_rate(generation->value, width->value);
  if (!rate) return std::nullopt;
  return Bar{
      *rate, kPcieShare,
      fmt::format("raw rate of PCIe {}.0 x{} ({}); packet headers and flow control take the rest", generation->value,
                  width->value, observed ? "read while it copied" : "what GPU and slot can do")};
}

double tensor_rate(const GpuModel& model, const BurnInFigure& figure) {
  return figure.id.ends_with("bf16") ? model.bf16_dense_tflops : model.fp16_dense_tflops;
}

double tensor_share(const GpuModel& model, const BurnInFigure& figure) {
  const bool small = model.tdp_watts > 0 && model.tdp_watts <= kSmallBoardWatts;
  const double share = small ? kSmallBoardShare : kMatrixShare;
  if (figure.id.starts_with("matrix")) return share;
  // Tensor cores from data-centre Blackwell on have instructions of their own; of mma.sync nothing is published.
  if (model.capability_major == 10 || model.capability_major == 11) return 0;
  return model.capability_major == 9 ? share * kHopperMmaShare : share;
}

std::optional<Bar> model_bar(const GpuModel& model, const BurnInFigure& figure) {
  const std::string source = fmt::format("catalogue: {}", model.name);
  if (figure.id == "memory_bandwidth" && model.memory_bandwidth_gb_s > 0)
    return Bar{model.memory_bandwidth_gb_s, kBandwidthShare, source + "; copying turns between reading and writing"};
  if (figure.id == "fp32" && model.fp32_tflops > 0)
    return Bar{model.fp32_tflops, kFp32Share, source + ", at boost clock; power limits hold clocks below it"};
  const double rate = tensor_rate(model, figure);
  const bool tensor = figure.id.starts_with("tensor") || figure.id.starts_with("matrix");
  const double share = tensor ? tensor_share(model, figure) : 0;
  if (rate <= 0 || share <= 0) return std::nullopt;
  return Bar{rate, share, source + ", dense, at boost clock; power limits hold clocks below it"};
}

/// A product beside the one by which the GPU is judged: what is published, and no share that it must reach, since which
/// kernel a library has for it differs from release to release.
std::optional<Bar> beside_bar(const GpuModel& model, std::string_view id) {
  const double rate = id.ends_with("tf32")   ? model.tf32_dense_tflops
                      : id.ends_with("int8") ? model.int8_dense_tops
                      : id.ends_with("fp32") ? model.fp32_tflops
                                             : model.fp16_dense_tflops;
  if (rate <= 0) return std::nullopt;
  return Bar{rate, 0, fmt::format("catalogue: {}, dense, at boost clock", model.name)};
}

bool is_mig(const facts::GpuRecord& record) { return record.gpu.mig_enabled.value_or(false); }

}  // namespace

std::optional<double> pcie_rate(std::int64_t generation, std::int64_t width) {
  if (generation < 1 || generation > std::ssize(kLaneRates) || width < 1 || width > 32) return std::nullopt;
  return kLaneRates[static_cast<std::size_t>(generation) - 1] * static_cast<double>(width);
}

void expect(BurnInGpu& gpu, const facts::GpuRecord& record, const knowledge::Knowledge& knowledge) {
  const GpuModel* model = knowledge.model(record.gpu.name, record.gpu.pci_device_id);
  // A MIG instance has a slice of everything.
  if (is_mig(record)) model = nullptr;
  const auto first =
      std::ranges::find_if(gpu.figures, [](const BurnInFigure& figure) { return figure.id.starts_with("matrix_"); });
  const bool product = first != gpu.figures.end() && first->id.ends_with("16");
  const BurnInFigure* judged = product ? &*first : nullptr;
  for (BurnInFigure& figure : gpu.figures) {
    // The library's product is the better measure of the tensor cores where both are there.
    if (product && figure.id.starts_with("tensor")) continue;
    const bool beside = figure.id.starts_with("matrix") && &figure != judged;
    const auto bar = figure.id.starts_with("pcie") ? link_bar(gpu, record)
                     : model == nullptr            ? std::nullopt
                     : beside                      ? beside_bar(*model, figure.id)
                                                   : model_bar(*model, figure);
    if (!bar) continue;
    figure.expected = bar->expected;
    if (bar->share > 0) figure.least = bar->expected * bar->share;
    figure.expected_from = bar->source;
  }
}

void expect(facts::BurnInPair& pair, const facts::Snapshot& snapshot) {
  if (!pair.figure || pair.direct != true || !pair.from_index || !pair.to_index || !snapshot.links) return;
  const auto link = std::ranges::find_if(*snapshot.links, [&](const facts::Link& one) {
    return (one.a == *pair.from_index && one.b == *pair.to_index) ||
           (one.a == *pair.to_index && one.b == *pair.from_index);
  });
  const auto record = std::ranges::find(snapshot.gpus, *pair.from_index, [](const auto& r) { return r.gpu.index; });
  if (link == snapshot.links->end() || link->nvlinks <= 0 || record == snapshot.gpus.end()) return;
  const auto known = std::ranges::find_if(record->sample.nvlinks,
                                          [](const facts::NvLink& one) { return one.active == true && one.speed; });
  if (known == record->sample.nvlinks.end() || known->speed->value <= 0) return;
  const double each = static_cast<double>(known->speed->value) / 1e9;
  pair.figure->expected = each * link->nvlinks;
  pair.figure->least = *pair.figure->expected * kNvlinkShare;
  pair.figure->expected_from = fmt::format(
      "{} NVLinks of {:.4g} GB/s in each direction, as the driver tells them; packet headers and flow "
      "control take the rest",
      link->nvlinks, each);
}

}  // namespace gpuwarden::burn_in
