// SPDX-License-Identifier: Apache-2.0
// Real captures: expected values, and what damage does to them.
#include <cctype>
#include <fstream>
#include <random>
#include <set>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "support/capture_answers.hpp"
#include "support/corpus.hpp"
#include "support/environment_parts.hpp"
#include "support/repetitions.hpp"

namespace gpuwarden::capture {
namespace {

using namespace gpuwarden::testing;

constexpr auto kKinds = std::to_array<std::string_view>(
    {"smi_xml",   "smi_q",      "smi_table",   "smi_csv",     "smi_csv_apps", "smi_L",     "smi_pmon",
     "smi_dmon",  "smi_nvlink", "smi_version", "topo",        "topo_p2p",     "smi_error", "kernel_log",
     "rocm_json", "amd_smi",    "xpu_smi",     "collect_env", "sglang_env",   "toolkit",   "slurm"});

/// Values of the index that are no facts of the file: two counts that took in a list of symbols behind the samples
/// (405 names), a cause and a format in the collector's own words.
const std::set<std::string> kNotFacts = {"smi_dmon/nge-nvidia-h100-80gb-hbm3-590.48.01-load.txt:.samples",
                                         "smi_dmon/nge-nvidia-h100-mig-590.48.01-load.txt:.samples",
                                         "kernel_log/bconfiden2-api-mismatch.txt:.cause",
                                         "kernel_log/gpud-kmsg-raw.log:.format"};

TEST(CaptureCorpus, EveryExpectedValueIsRead) {
  const auto folder = corpus();
  const auto scores = score_index(folder / "captures/index.jsonl");
  std::size_t files = 0;
  for (const std::string_view kind : kKinds) {
    const auto found = scores.find(std::string(kind));
    if (found == scores.end()) continue;
    files += found->second.files;
    EXPECT_EQ(found->second.read, found->second.files) << kind;
    for (const Mistake& mistake : found->second.mistakes) {
      EXPECT_TRUE(kNotFacts.contains(mistake.path))
          << mistake.path << ": expected " << mistake.expected << ", answered " << mistake.answered;
    }
  }
  EXPECT_GT(files, corpus_is_whole() ? 200U : 25U);
}

/// One file of each kind, the smallest above 300 bytes: damage shows soonest there.
std::map<std::string, std::string> one_of_each() {
  std::map<std::string, std::string> chosen;
  std::ifstream index(corpus() / "captures/index.jsonl");
  for (std::string line; std::getline(index, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    const std::string kind = row.value("kind", "");
    if (std::ranges::find(kKinds, kind) == kKinds.end() || !row.contains("bytes")) continue;
    const auto text = read_file(corpus() / "captures" / row["file"].get<std::string>());
    if (!text || text->size() > 20000) continue;
    auto& best = chosen[kind];
    if (best.empty() || (text->size() > 300 && (best.size() < 300 || text->size() < best.size()))) best = *text;
  }
  return chosen;
}

/// Every metric is empty or within its range.
void expect_possible(const facts::Snapshot& snapshot, const std::string& where) {
  for (const auto& record : snapshot.gpus) {
    for (const facts::Metric& metric : facts::metrics()) {
      const auto value = value_of(metric, record.sample);
      if (!value) continue;
      EXPECT_GE(*value, metric.range.low) << where << " " << metric.id;
      EXPECT_LE(*value, metric.range.high) << where << " " << metric.id;
    }
    for (const auto& process : record.processes.value_or(std::vector<facts::GpuProcess>{}))
      EXPECT_GE(process.pid.value, 0) << where;
  }
}

/// A metric of a cut text is the whole text's, or empty.
void expect_subset(const facts::Snapshot& whole, const facts::Snapshot& part, const std::string& where) {
  for (const auto& record : part.gpus) {
    const auto same =
        std::ranges::find(whole.gpus, record.gpu.index, [](const auto& other) { return other.gpu.index; });
    ASSERT_NE(same, whole.gpus.end()) << where;
    for (const facts::Metric& metric : facts::metrics()) {
      const auto value = value_of(metric, record.sample);
      if (value) {
        EXPECT_EQ(value, value_of(metric, same->sample)) << where << " " << metric.id;
      }
    }
  }
  if (part.driver_version) {
    EXPECT_EQ(part.driver_version, whole.driver_version) << where;
  }
  if (part.environment && whole.environment) {
    const auto changed = changed_facts(*whole.environment, *part.environment);
    EXPECT_TRUE(changed.empty()) << where << " " << changed;
  }
}

/// Text that loops (dmon, CSV logs) shows other samples of the same GPU when it is cut: there the last one counts.
bool repeats(std::string_view kind) { return kind == "smi_dmon" || kind == "smi_pmon" || kind == "smi_csv"; }

TEST(CaptureCorpus, AThousandCutsOfEachKindLoseValuesAndNeverChangeThem) {
  for (const auto& [kind, text] : one_of_each()) {
    const auto whole = read_capture(text, kind);
    ASSERT_TRUE(whole) << kind;
    const std::size_t cuts = repetitions(1000);
    for (std::size_t i = 0; i < cuts; ++i) {
      const std::size_t length = text.size() * i / cuts;
      const auto part = read_capture(std::string_view(text).substr(0, length), kind);
      if (!part) continue;
      const std::string where = kind + " cut at " + std::to_string(length);
      expect_possible(part->snapshot, where);
      if (!repeats(kind)) expect_subset(whole->snapshot, part->snapshot, where);
    }
  }
}

TEST(CaptureCorpus, AThousandFlippedBitsOfEachKindCrashNothingAndGiveNothingImpossible) {
  std::mt19937 random(20261121);
  for (const auto& [kind, text] : one_of_each()) {
    for (unsigned i = 0; i < repetitions(1000); ++i) {
      std::string damaged = text;
      damaged[random() % damaged.size()] ^= static_cast<char>(1U << (random() % 8));
      if (const auto read = read_capture(damaged, kind)) expect_possible(read->snapshot, kind);
    }
  }
}

TEST(CaptureCorpus, EveryFileOfAnyKindIsReadOrRefusedWithAReason) {
  const auto folder = corpus();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const auto text = read_file(entry.path());
    if (!text) continue;
    const auto capture = read_capture(*text, entry.path().string());
    if (!capture) {
      EXPECT_FALSE(capture.error().message.empty());
    }
  }
}

}  // namespace
}  // namespace gpuwarden::capture
