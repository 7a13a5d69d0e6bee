// SPDX-License-Identifier: Apache-2.0
// What an operation costs a thread when others are at work: CPU time, as only the thread's own clock tells it, since
// there may be more threads than cores. Threads with streams of their own, all on one, and pairs of which one thread
// allocates and the other gives back.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "gpuwarden/base/thread_time.hpp"
#include "memory/comparison.hpp"

namespace gpuwarden::bench {
namespace {

constexpr unsigned kBlocks = 64;
constexpr unsigned kBatch = 2048;

double thread_nanoseconds_since(std::chrono::nanoseconds start) {
  return std::chrono::duration<double, std::nano>(thread_time() - start).count();
}

std::uint64_t some_size(std::minstd_rand& random) { return (1 + random() % 12) * 300'000; }

/// A thread's work: 64 blocks of a dozen sizes, one replaced at a time.
std::vector<Operation> replacements(std::uint64_t operations, std::uint32_t stream, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<Operation> all;
  for (std::uint32_t slot = 0; slot < kBlocks; ++slot) all.push_back({some_size(random), slot, stream});
  while (all.size() < operations) {
    const auto slot = static_cast<std::uint32_t>(random() % kBlocks);
    all.push_back({0, slot, stream});
    all.push_back({some_size(random), slot, stream});
  }
  return all;
}

/// Lets threads begin at once.
class StartLine {
 public:
  explicit StartLine(unsigned threads) : missing_(threads) {}
  void arrive() {
    missing_.fetch_sub(1);
    while (missing_.load() != 0) std::this_thread::yield();
  }

 private:
  std::atomic<unsigned> missing_;
};

/// CPU nanoseconds an operation, the mean of the threads.
double play_threads(const Contender& contender, unsigned threads, bool shared, std::uint64_t operations) {
  const auto contestant = contender.make({});
  StartLine line(threads);
  std::vector<double> taken(threads);
  {
    std::vector<std::jthread> all;
    for (unsigned i = 0; i < threads; ++i) {
      all.emplace_back([&, i] {
        const auto work = replacements(operations, shared ? 0 : i + 1, i + 1);
        std::vector<Slot> slots(kBlocks);
        line.arrive();
        const auto start = thread_time();
        contestant->play(work, slots);
        taken[i] = thread_nanoseconds_since(start) / static_cast<double>(work.size());
      });
    }
  }
  double sum = 0;
  for (const double one : taken) sum += one;
  return sum / threads;
}

/// Hands batches of slots from one thread to another; each end sleeps while the other has nothing for it.
class Exchange {
 public:
  void put(std::vector<Slot> batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return batches_.size() < 4; });
    batches_.push_back(std::move(batch));
    changed_.notify_one();
  }
  std::vector<Slot> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !batches_.empty(); });
    auto batch = std::move(batches_.front());
    batches_.erase(batches_.begin());
    changed_.notify_one();
    return batch;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<Slot>> batches_;
};

double produce(Contestant& contestant, Exchange& exchange, std::uint64_t batches, std::uint32_t stream) {
  std::minstd_rand random(stream);
  std::vector<Operation> work(kBatch);
  double taken = 0;
  for (std::uint64_t i = 0; i < batches; ++i) {
    for (std::uint32_t slot = 0; slot < kBatch; ++slot) work[slot] = {some_size(random) / 16, slot, stream};
    std::vector<Slot> slots(kBatch);
    const auto start = thread_time();
    contestant.play(work, slots);
    taken += thread_nanoseconds_since(start);
    exchange.put(std::move(slots));
  }
  return taken;
}

double consume(Contestant& contestant, Exchange& exchange, std::uint64_t batches, std::uint32_t stream) {
  std::vector<Operation> work(kBatch);
  for (std::uint32_t slot = 0; slot < kBatch; ++slot) work[slot] = {0, slot, stream};
  double taken = 0;
  for (std::uint64_t i = 0; i < batches; ++i) {
    auto slots = exchange.take();
    const auto start = thread_time();
    contestant.play(work, slots);
    taken += thread_nanoseconds_since(start);
  }
  return taken;
}

/// CPU nanoseconds an operation of `pairs` pairs, or of one thread that does both parts in turn (0 pairs).
double play_pairs(const Contender& contender, unsigned pairs, std::uint64_t operations) {
  const auto contestant = contender.make({});
  const std::uint64_t batches = std::max<std::uint64_t>(operations / kBatch / 2, 1);
  const auto done = static_cast<double>(2 * batches * kBatch);
  if (pairs == 0) {
    Exchange exchange;
    double taken = 0;
    for (std::uint64_t i = 0; i < batches; ++i)
      taken += produce(*contestant, exchange, 1, 1) + consume(*contestant, exchange, 1, 1);
    return taken / done;
  }
  std::vector<Exchange> exchanges(pairs);
  std::vector<double> taken(std::size_t{2} * pairs);
  {
    std::vector<std::jthread> all;
    for (unsigned i = 0; i < pairs; ++i) {
      all.emplace_back([&, i] { taken[2 * i] = produce(*contestant, exchanges[i], batches, i + 1); });
      all.emplace_back([&, i] { taken[2 * i + 1] = consume(*contestant, exchanges[i], batches, i + 1); });
    }
  }
  double sum = 0;
  for (const double one : taken) sum += one;
  return sum / pairs / done;
}

enum class Shape : std::uint8_t { own_streams, one_stream, pairs };

double play_shape(const Contender& contender, Shape shape, unsigned threads, std::uint64_t operations) {
  if (shape == Shape::pairs) return play_pairs(contender, threads / 2, operations);
  return play_threads(contender, threads, shape == Shape::one_stream, operations);
}

void run_shape(Report& report, const Options& options, Shape shape, std::string title) {
  std::vector<Contender> contenders = chosen(options);
  std::erase_if(contenders, [](const Contender& one) { return !one.abilities.threads; });
  const std::uint64_t operations = options.operations == 0 ? 400'000 : options.operations;
  std::vector<std::vector<double>> best(contenders.size(), std::vector<double>(options.threads.size(), kNone));
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (std::size_t t = 0; t < options.threads.size(); ++t) {
      for (std::size_t i = 0; i < contenders.size(); ++i)
        best[i][t] = std::fmin(best[i][t], play_shape(contenders[i], shape, options.threads[t], operations));
    }
  }
  Table table{.title = fmt::format("{}: CPU ns an operation, {} operations a thread; {} cores", title, operations,
                                   std::thread::hardware_concurrency()),
              .columns = {},
              .rows = {}};
  for (const unsigned threads : options.threads) {
    table.columns.push_back({fmt::format("{} threads", threads), fmt::format("ns_per_operation_{}", threads)});
    table.columns.push_back({"ratio", fmt::format("of_one_thread_{}", threads), 2});
  }
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Row row{contenders[i].name, {}, {}};
    for (const double one : best[i]) {
      row.values.push_back(one);
      row.values.push_back(one / best[i].front());
    }
    table.rows.push_back(std::move(row));
  }
  const std::size_t ours = position(contenders, "gpuwarden balanced");
  for (std::size_t t = 1; ours < contenders.size() && t < options.threads.size(); ++t) {
    if (shape != Shape::own_streams || options.threads[t] > std::thread::hardware_concurrency()) continue;
    report.goals.push_back({fmt::format("own streams, {} threads, CPU time of one thread's", options.threads[t]),
                            best[ours][t] / best[ours].front(), true, 1.3, 2});
  }
  publish(report, options, std::move(table));
}

}  // namespace

Report bench_threads(const Options& options) {
  Report report{.benchmark = "threads"};
  run_shape(report, options, Shape::own_streams, "A stream for each thread");
  run_shape(report, options, Shape::one_stream, "One stream for all");
  run_shape(report, options, Shape::pairs, "Half of the threads allocate, the others give back");
  return report;
}

}  // namespace gpuwarden::bench
