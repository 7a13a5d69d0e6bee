// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/burn_in_json.hpp"

// enum_named() and describe() are found by argument-dependent lookup, which does not look into unnamed namespaces.
namespace gpuwarden::facts {

std::optional<ThrottleReason> enum_named(const std::string& name, ThrottleReason);  // json.cpp

}  // namespace gpuwarden::facts

#include "facts/archive.hpp"
#include "gpuwarden/facts/answer.hpp"

namespace gpuwarden::facts {

template <class A>
static void describe(A& a, BurnInFigure& record) {
  a.field("id", record.id);
  a.field("value", record.value);
  a.field("unit", record.unit);
  a.field("method", record.method);
  a.field("expected", record.expected);
  a.field("least", record.least);
  a.field("expected_from", record.expected_from);
}

template <class A>
static void describe(A& a, MemoryFault& record) {
  a.field("address", record.address);
  a.field("expected", record.expected);
  a.field("found", record.found);
  a.field("pattern", record.pattern);
  if constexpr (!A::kReads) a.field("wrong_bits", wrong_bits(record));
}

template <class A>
static void describe(A& a, BurnInMemory& record) {
  a.field("free_bytes", record.free);
  a.field("tested_bytes", record.tested);
  a.field("patterns", record.patterns);
  a.field("complete", record.complete);
  a.field("mismatches", record.mismatches);
  a.field("faults", record.faults);
}

template <class A>
static void describe(A& a, BurnInMoment& record) {
  a.field("when", record.when);
  a.field("temperature_celsius", record.temperature);
  a.field("clock_sm_mhz", record.clock_sm);
  a.field("power_watts", record.power);
  a.field("pcie_generation", record.pcie_generation);
  a.field("pcie_width", record.pcie_width);
  a.field("throttle_reasons", record.throttle_reasons);
}

template <class A>
static void describe(A& a, BurnInGpu& record) {
  a.field("uuid", record.uuid);
  a.field("index", record.index);
  a.field("name", record.name);
  a.field("not_possible", record.not_possible);
  a.field("failed", record.failed);
  a.field("memory", record.memory);
  a.field("figures", record.figures);
  a.field("wrong_results", record.wrong_results);
  a.field("notes", record.notes);
  a.field("moments", record.moments);
  a.field("milliseconds", record.milliseconds);
}

template <class A>
static void describe(A& a, BurnInPair& record) {
  a.field("from", record.from);
  a.field("to", record.to);
  a.field("from_index", record.from_index);
  a.field("to_index", record.to_index);
  a.field("direct", record.direct);
  a.field("figure", record.figure);
  a.field("failed", record.failed);
}

template <class A>
static void describe(A& a, BurnInRun& record) {
  a.field("library", record.library);
  a.field("stand_in", record.stand_in);
  a.field("cuda_version", record.cuda_version);
  a.field("not_possible", record.not_possible);
  a.field("failed", record.failed);
  a.field("next_steps", record.next_steps);
  a.field("gpus", record.gpus);
  a.field("pairs", record.pairs);
}

Json to_json(const BurnInGpu& gpu) { return Writer::encode(gpu); }
Json to_json(const BurnInRun& run) { return Writer::encode(run); }
Json bench_to_json(const BurnInRun& run, bool simulated) { return answer({{"bench", to_json(run)}}, simulated); }

Result<BurnInGpu> burn_in_gpu_from_json(const Json& json) {
  std::optional<Error> error;
  BurnInGpu gpu;
  Reader reader(json, error);
  describe(reader, gpu);
  if (error) return std::unexpected(*error);
  return gpu;
}

}  // namespace gpuwarden::facts
