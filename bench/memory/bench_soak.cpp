// SPDX-License-Identifier: Apache-2.0
// A long run: a hundred million operations on a few thousand blocks of all sizes, in ten parts. Whatever grows from
// part to part would grow for ever.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <random>

#include "memory/comparison.hpp"

namespace gpuwarden::bench {
namespace {

constexpr std::uint32_t kBlocks = 4096;
constexpr unsigned kParts = 10;
constexpr std::size_t kChunk = 1 << 20U;

/// Bytes of this process in memory.
std::uint64_t resident() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Replaces random blocks, sizes log-uniform from 512 B to 8 MiB, on four streams.
class Soak {
 public:
  Soak() : chunk_(kChunk), slots_(kBlocks), live_(kBlocks) {}

  double run(Contestant& contestant, std::uint64_t operations) {
    double seconds = 0;
    for (std::uint64_t done = 0; done < operations; done += kChunk) {
      const std::size_t count = std::min<std::uint64_t>(kChunk, operations - done);
      for (std::size_t i = 0; i < count; ++i) chunk_[i] = next();
      const auto start = std::chrono::steady_clock::now();
      contestant.play(std::span(chunk_).first(count), slots_);
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    return seconds * 1e9 / static_cast<double>(operations);
  }
  std::uint64_t live_blocks() const { return live_count_; }

 private:
  Operation next() {
    const auto slot = static_cast<std::uint32_t>(random_() % kBlocks);
    const std::uint32_t stream = slot % 4;
    const bool was_live = live_[slot];
    live_[slot] = !was_live;
    live_count_ += was_live ? -1 : 1;
    if (was_live) return {0, slot, stream};
    const std::uint64_t magnitude = std::uint64_t{512} << (random_() % 14);
    return {magnitude + random_() % magnitude, slot, stream};
  }

  std::minstd_rand random_{1};
  std::vector<Operation> chunk_;
  std::vector<Slot> slots_;
  std::vector<bool> live_;
  std::uint64_t live_count_ = 0;
};

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / kMiB; }

void run_one(Report& report, const Options& options, const Contender& contender, std::uint64_t operations) {
  Table table{.title = fmt::format("{}: {} operations, {} blocks", contender.name, operations, kBlocks),
              .columns = {{"ns/op", "ns_per_operation"},
                          {"reserved MiB", "reserved_mib", 0},
                          {"process MiB", "resident_mib", 2},
                          {"metadata KiB", "metadata_kib", 1},
                          {"driver calls", "driver_calls", 0}},
              .rows = {}};
  Soak soak;
  const auto contestant = contender.make({});
  for (unsigned part = 1; part <= kParts; ++part) {
    const double nanoseconds = soak.run(*contestant, operations / kParts);
    const Footprint footprint = contestant->footprint();
    const double metadata = footprint.metadata ? static_cast<double>(*footprint.metadata) / 1024 : kNone;
    const double calls = contestant->driver() == nullptr ? kNone : static_cast<double>(footprint.calls.all());
    table.rows.push_back({fmt::format("part {}", part),
                          {nanoseconds, mebibytes(footprint.reserved), mebibytes(resident()), metadata, calls},
                          contestant->check()});
  }
  if (contender.name == "gpuwarden balanced") {
    const auto growth = [&](std::size_t column) {
      return 100 * (table.rows.back().values[column] / table.rows[kParts / 2 - 1].values[column] - 1);
    };
    report.goals.push_back({"soak, growth of metadata in the second half, %", growth(3), true, 1, 2});
    report.goals.push_back({"soak, growth of the process in the second half, %", growth(2), true, 1, 2});
    report.goals.push_back({"soak, growth of reserved memory in the second half, %", growth(1), true, 1, 2});
  }
  publish(report, options, std::move(table));
}

/// Metadata by live block, with so many of them.
void run_metadata(Report& report, const Options& options, const std::vector<Contender>& contenders) {
  Table table{
      .title = "100,000 live blocks of 512 B to 1 MiB: host memory that describes them",
      .columns = {{"bytes a block", "metadata_bytes_per_block"}, {"process bytes a block", "resident_bytes_per_block"}},
      .rows = {}};
  constexpr std::uint32_t kMany = 100'000;
  std::minstd_rand random(1);
  std::vector<Operation> work;
  for (std::uint32_t slot = 0; slot < kMany; ++slot) work.push_back({512 + random() % kMiB, slot, 0});
  std::vector<Slot> slots(kMany);
  for (const Contender& contender : contenders) {
    ::malloc_trim(0);
    const std::uint64_t before = resident();
    const auto contestant = contender.make({});
    contestant->play(work, slots);
    const auto metadata = contestant->footprint().metadata;
    const double per_block = metadata ? static_cast<double>(*metadata) / kMany : kNone;
    table.rows.push_back(
        {contender.name, {per_block, (static_cast<double>(resident()) - static_cast<double>(before)) / kMany}, {}});
    if (contender.name == "gpuwarden balanced")
      report.goals.push_back({"metadata, bytes a live block", per_block, true, 64});
  }
  publish(report, options, std::move(table));
}

}  // namespace

Report bench_soak(const Options& options) {
  Report report{.benchmark = "soak"};
  const auto contenders = chosen(options);
  const std::uint64_t operations = options.operations == 0 ? 100'000'000 : options.operations;
  run_metadata(report, options, contenders);
  for (const Contender& contender : contenders) {
    // The RMM pool's lists are searched from end to end: a tenth of the work.
    run_one(report, options, contender, contender.kind == Contender::Kind::ours ? operations : operations / 10);
  }
  return report;
}

}  // namespace gpuwarden::bench
