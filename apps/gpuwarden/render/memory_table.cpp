// SPDX-License-Identifier: Apache-2.0
#include "render/memory_table.hpp"

#include <fmt/format.h>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/memory/fragmentation.hpp"
#include "render/gpu_table.hpp"

namespace gpuwarden::cli {
namespace {

using facts::GpuProcess;
using facts::GpuRecord;

constexpr std::size_t kName = 24;
constexpr std::size_t kSize = 10;

std::string size_cell(const std::optional<Bytes>& bytes) { return fit(bytes ? format_size(*bytes) : "-", kSize, true); }

std::string share_cell(const std::optional<Bytes>& part, const std::optional<Bytes>& whole) {
  if (!part || !whole || whole->value == 0) return "   -";
  return fit(fmt::format("{:.0f}%", ratio(*part, *whole) * 100), 4, true);
}

std::string gpu_row(const GpuRecord& record, const Style& style) {
  const auto& sample = record.sample;
  const double share = sample.memory_used && sample.memory_total && sample.memory_total->value > 0
                           ? ratio(*sample.memory_used, *sample.memory_total)
                           : 0;
  const Tone tone = share >= 0.9 ? Tone::bad : share >= 0.5 ? Tone::warning : Tone::good;
  return fmt::format("{:>2} {} {} {} {} {} {}\n", record.gpu.index.value, fit(short_name(record.gpu.name), kName),
                     style.paint(share_cell(sample.memory_used, sample.memory_total), tone),
                     size_cell(sample.memory_used), size_cell(sample.memory_free), size_cell(sample.memory_reserved),
                     size_cell(sample.memory_total));
}

std::string process_row(const GpuProcess& process, const GpuRecord& record, const Style& style) {
  const std::string line =
      fmt::format("   {:>7} {} {} {}  {}", process.pid.value, fit(printable(process.user.value_or("?")), kName - 9),
                  share_cell(process.memory, record.sample.memory_total), size_cell(process.memory),
                  printable(process.command.value_or("?")));
  return cut(line, style) + "\n";
}

/// What a pool says, most telling first: a narrow terminal cuts the end off.
std::string pool_row(const pools::PublishedPool& pool, const Style& style) {
  std::string line = fmt::format("{:11}pool: live {}, cached {}, free {}", "", format_size(pool.live),
                                 format_size(pool.cached), format_size(pool.free));
  if (pool.free.value > 0 && pool.largest_free)
    line += fmt::format(" ({:.0f}% split)", memory::external_fragmentation(pool.free, *pool.largest_free) * 100);
  line += fmt::format(" of {}, peak {}, ", format_size(pool.reserved), format_size(pool.peak_reserved));
  if (pool.limit) line += fmt::format("limit {}, ", format_size(*pool.limit));
  line += printable(pool.strategy);
  if (pool.out_of_memory > 0) line += fmt::format(", out of memory {} times", pool.out_of_memory);
  return style.paint(cut(line, style), Tone::dim) + "\n";
}

std::string processes(const GpuRecord& record, const pools::Pools& pools, const Style& style) {
  std::string text;
  for (const pools::Holding& holding : pools::holdings_on(record, pools)) {
    text += process_row(holding.process, record, style);
    for (const pools::PublishedPool& pool : holding.pools) text += pool_row(pool, style);
  }
  const auto rest = pools::unaccounted_memory(record);
  constexpr Bytes kWorthTelling = 64_MiB;
  if (rest && *rest > kWorthTelling)
    text += style.paint(fmt::format("   {:>7} {} {} {}  {}", "", fit("", kName - 9),
                                    share_cell(rest, record.sample.memory_total), size_cell(rest),
                                    "held by no process that is listed"),
                        Tone::dim) +
            "\n";
  return text;
}

}  // namespace

std::string memory_table(const facts::Snapshot& snapshot, const pools::Pools& pools, const Style& style) {
  std::string text = snapshot_header(snapshot, style);
  if (snapshot.gpus.empty()) return text + (snapshot.origin.empty() ? "no GPU\n" : "no GPUs in this report\n");
  text += style.paint(fmt::format(" # {} {} {} {} {} {}", fit("name", kName), fit("", 4), fit("used", kSize, true),
                                  fit("free", kSize, true), fit("reserved", kSize, true), fit("total", kSize, true)),
                      Tone::dim) +
          "\n";
  for (const GpuRecord& record : snapshot.gpus) text += gpu_row(record, style) + processes(record, pools, style);
  return text;
}

}  // namespace gpuwarden::cli
