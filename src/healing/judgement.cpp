// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/healing/judgement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <iterator>
#include <optional>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/diagnosis/reader.hpp"
#include "gpuwarden/fitness/symptoms.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/launch/interface.hpp"

namespace gpuwarden::healing {
namespace {

using diagnosis::Diagnosis;
using diagnosis::Reading;
using knowledge::Restart;
using launch::GpuReport;
using launch::RankEnd;
using launch::RunReport;

/// Below it a cause does not decide whether the job is started again.
constexpr double kSureEnough = 0.87;
constexpr int kFellOffTheBus = 79;
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;
constexpr int kWrongUsage = 2;

void add_text(Reading& whole, const std::string& text, const std::string& name, std::uint32_t rank) {
  if (text.empty()) return;
  Reading part = diagnosis::read_log(text, name);
  for (diagnosis::Event& event : part.events) {
    if (!event.rank) event.rank = rank;
  }
  diagnosis::add_reading(whole, std::move(part));
}

/// The number of an Xid's happening.
std::optional<std::int64_t> xid_of(const telemetry::Happening& happening) {
  return happening.kind == "xid" ? happening.number : std::nullopt;
}

/// As the kernel's log tells of an Xid, which the rules know. Nothing for what is no sign of a failure.
std::string event_line(const telemetry::Happening& event) {
  const auto xid = event.kind == "lost" ? std::optional<std::int64_t>(kFellOffTheBus) : xid_of(event);
  if (!xid) return "";
  const auto* known = knowledge::Knowledge::built_in().xid(static_cast<int>(*xid));
  return fmt::format("NVRM: Xid ({}): {}, {}\n", event.gpu.value, *xid, known == nullptr ? "" : known->description);
}

/// Everything that there is to be read of a try.
Reading read_all(const RunReport& report) {
  Reading whole;
  for (const RankEnd& rank : report.end.ranks) {
    add_text(whole, rank.last_words, fmt::format("rank {} (standard error)", rank.rank), rank.rank);
    add_text(whole, rank.stacks, fmt::format("rank {} (stacks)", rank.rank), rank.rank);
    add_text(whole, rank.last_output, fmt::format("rank {} (standard output)", rank.rank), rank.rank);
  }
  std::string events;
  for (const telemetry::Happening& event : report.happenings) events += event_line(event);
  if (!events.empty()) diagnosis::add_reading(whole, diagnosis::read_log(events, "events of the GPUs"));
  return whole;
}

/// Whether what happened keeps a GPU from being used: an Xid of the program's own does not.
bool spoils(const telemetry::Happening& happening) {
  if (happening.kind == "lost" || happening.kind == "ecc_double_bit") return true;
  const auto number = xid_of(happening);
  if (!number) return false;
  facts::GpuRecord record;
  record.gpu.vendor = "NVIDIA";
  record.gpu.uuid = happening.gpu;
  const facts::GpuEvent event{.kind = facts::GpuEventKind::xid,
                              .uuid = happening.gpu,
                              .data = static_cast<std::uint64_t>(*number),
                              .time = happening.time};
  return !fitness::ailments_of(record, {&event, 1}).empty();
}

/// Whether the GPU was well when it was last heard of: what is amiss is the driver, which others have, too.
bool was_well(const GpuReport& gpu, const RunReport& report) {
  if (!report.last_seen) return false;
  const auto& gpus = report.last_seen->gpus;
  const auto record = std::ranges::find(gpus, gpu.uuid, [](const facts::GpuRecord& one) { return one.gpu.uuid; });
  return record == gpus.end() ? report.last_seen->problem.has_value() : facts::is_usable(*record);
}

/// What spoiled one of the job's GPUs, in words.
std::optional<std::string> trouble_of(const GpuReport& gpu, const RunReport& report) {
  if (gpu.summary.lost && !was_well(gpu, report))
    return gpu.summary.lost->text.empty() ? "it was lost" : gpu.summary.lost->text;
  // What happens to a MIG instance is told of its GPU.
  const auto found = std::ranges::find_if(report.happenings, [&](const telemetry::Happening& one) {
    const bool own = one.gpu == gpu.uuid || (gpu.uuid.value.starts_with("MIG-") && report.gpus.size() == 1);
    return own && spoils(one);
  });
  if (found == report.happenings.end()) return std::nullopt;
  return found->text.empty() ? spaced(found->kind) : found->text;
}

bool printed_usage(const RunReport& report) {
  return std::ranges::any_of(report.end.ranks, [](const RankEnd& rank) {
    return rank.last_words.starts_with("usage:") || rank.last_words.contains("\nusage:") ||
           rank.last_words.starts_with("Usage:") || rank.last_words.contains("\nUsage:");
  });
}

/// "a, b" of settings that are written one after another; the remedy alone where there were none.
std::string added_setting(const std::string& before, std::string_view remedy) {
  if (before.empty()) return std::string(remedy);
  if (!remedy.contains(':')) return std::string(remedy);
  return before + "," + std::string(remedy);
}

Environment remedy_for(const knowledge::DiagnosisCause& cause, const Environment& environment) {
  Environment remedy;
  for (const auto& [name, value] : cause.remedy) {
    const auto found = environment.find(std::string(name));
    const std::string before = found == environment.end() ? "" : found->second;
    const auto settings = split(before, ',');
    if (std::ranges::find(settings, value) != settings.end()) continue;
    remedy[std::string(name)] = added_setting(before, value);
  }
  return remedy;
}

void judge_by_cause(const diagnosis::Cause& cause, const Environment& environment, Judgement& judgement) {
  const knowledge::DiagnosisCause* known = knowledge::diagnosis_cause(cause.id);
  if (known == nullptr) return;
  judgement.restart = known->restart;
  judgement.why = cause.title;
  judgement.remedy = remedy_for(*known, environment);
  judgement.fewer_gpus = known->fewer_ranks;
}

/// How it ended, where nothing tells why.
std::string end_text(const launch::JobEnd& end) {
  if (std::string signal = launch::signal_text(end); !signal.empty()) return signal;
  const std::string who = end.ranks.size() > 1 && end.first_failure ? fmt::format("rank {}", *end.first_failure) : "it";
  return fmt::format("{} ended with exit code {}", who, end.exit_code);
}

void judge_without_cause(const RunReport& report, Judgement& judgement) {
  const int code = report.end.exit_code;
  const auto& plain = judgement.diagnosis.ordinary;
  if (plain && is_of_program(plain->text)) {
    judgement.restart = Restart::never;
    judgement.why = plain->text;
  } else if (code == kCannotExecute || code == kNotFound || (code == kWrongUsage && printed_usage(report))) {
    judgement.restart = Restart::never;
    judgement.why = code == kWrongUsage ? "the program does not understand its arguments" : "a program was not found";
  }
}

/// What it stood on was used up: another try would find no more of it, whatever was printed.
void judge_early_end(const launch::EarlyEnd& early, Judgement& judgement) {
  using Kind = launch::EarlyEnd::Kind;
  judgement.why = early.why;
  if (early.kind != Kind::no_resources && early.kind != Kind::out_of_time) return;
  judgement.restart = Restart::never;
  judgement.remedy.clear();
  judgement.fewer_gpus = early.of_memory;
}

/// The GPUs for whose sake a job was ended that would have gone on.
void blame_stragglers(const RunReport& report, Judgement& judgement, std::string& trouble) {
  if (!report.end.early || report.end.early->kind != launch::EarlyEnd::Kind::straggler) return;
  for (const launch::Straggler& one : report.stragglers) {
    if (!one.ended_job || std::ranges::find(judgement.gpus_at_fault, one.uuid) != judgement.gpus_at_fault.end())
      continue;
    judgement.gpus_at_fault.push_back(one.uuid);
    if (trouble.empty()) trouble = one.sentence();
  }
}

}  // namespace

bool is_of_program(std::string_view exception) {
  static constexpr auto kOfProgram = std::to_array<std::string_view>(
      {"ArithmeticError",    "AssertionError",      "AttributeError",    "FileNotFoundError",  "ImportError",
       "IndentationError",   "IndexError",          "IsADirectoryError", "JSONDecodeError",    "KeyError",
       "LookupError",        "ModuleNotFoundError", "NameError",         "NotADirectoryError", "NotImplementedError",
       "RecursionError",     "SyntaxError",         "TabError",          "TypeError",          "UnboundLocalError",
       "UnicodeDecodeError", "UnicodeEncodeError",  "ValueError",        "ValidationError",    "ZeroDivisionError"});
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return std::ranges::any_of(kOfProgram, [&](std::string_view name) {
    for (std::size_t at = exception.find(name); at != std::string_view::npos; at = exception.find(name, at + 1)) {
      const std::size_t end = at + name.size();
      const bool begins = at == 0 || !is_word(exception[at - 1]);
      if (begins && (end == exception.size() || exception[end] == ':')) return true;
    }
    return false;
  });
}

Environment fill_in(Environment remedy, const std::string& master_address, std::uint32_t nodes,
                    const Environment& environment) {
  std::optional<std::string> interface;
  bool looked = false;
  for (auto one = remedy.begin(); one != remedy.end();) {
    if (one->second == kInterface) {
      if (!std::exchange(looked, true)) interface = launch::interface_towards(master_address, nodes > 1);
      one->second = interface.value_or("");
    }
    const auto before = environment.find(one->first);
    const bool has = before != environment.end() && before->second == one->second;
    one = one->second.empty() || has ? remedy.erase(one) : std::next(one);
  }
  return remedy;
}

Judgement judge(const RunReport& report, const Environment& environment) {
  Judgement judgement;
  judgement.diagnosis = diagnosis::diagnose(read_all(report), report.last_seen ? &*report.last_seen : nullptr);
  std::string trouble;
  for (const GpuReport& gpu : report.gpus) {
    const auto words = trouble_of(gpu, report);
    if (!words) continue;
    judgement.gpus_at_fault.push_back(gpu.uuid);
    if (trouble.empty()) trouble = fmt::format("GPU {}: {}", gpu.index.value, *words);
  }
  blame_stragglers(report, judgement, trouble);
  const auto& causes = judgement.diagnosis.causes;
  const bool sure = !causes.empty() && causes.front().confidence >= kSureEnough;
  if (sure)
    judge_by_cause(causes.front(), environment, judgement);
  else
    judge_without_cause(report, judgement);
  // What did not get on may do so next time, whatever was printed before.
  if (!report.end.given_up.empty()) {
    judgement.restart = Restart::again;
    judgement.why = report.end.given_up;
  }
  if (report.end.early) judge_early_end(*report.end.early, judgement);
  // A GPU that is gone explains whatever the programs say of it.
  if (!judgement.gpus_at_fault.empty()) {
    judgement.restart = Restart::other_gpus;
    judgement.why = trouble;
  }
  if (judgement.why.empty()) judgement.why = end_text(report.end);
  return judgement;
}

}  // namespace gpuwarden::healing
