// SPDX-License-Identifier: Apache-2.0
#include "capture/slurm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "capture/gres_conf.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

using facts::SlurmFacts;
using facts::SlurmJob;
using facts::SlurmNode;
using facts::SlurmPartition;

constexpr std::string_view kConfigurationBegins = "Configuration data as of ";
/// More records than any cluster has jobs are a hostile file's.
constexpr std::size_t kMostRecords = 200'000;
/// More kinds of GPUs than a node's file has lines.
constexpr std::size_t kMostGres = 4096;

class Taker {
 public:
  explicit Taker(std::vector<Line>& lines) : lines_(lines) {}

  std::optional<SlurmText> take() {
    while (at_ < lines_.size() && text_.records.size() < kMostRecords) {
      const std::size_t length = lines_[at_].text.empty() ? 0 : take_part();
      if (length > 0 && text_.line == 0) text_.line = lines_[at_].number;
      for (std::size_t i = 0; i < length; ++i) lines_[at_ + i].text.clear();
      at_ += std::max<std::size_t>(length, 1);
    }
    if (text_.line == 0) return std::nullopt;
    return std::move(text_);
  }

 private:
  std::size_t take_part() {
    const std::span<const Line> rest = std::span<const Line>(lines_).subspan(at_);
    if (const std::size_t length = take_configuration(rest)) return length;
    if (auto resource = read_gres_line(rest[0])) {
      text_.records.push_back(std::move(*resource));
      return 1;
    }
    SlurmRecord record;
    if (const std::size_t length = read_slurm_record(rest, record)) {
      text_.records.push_back(std::move(record));
      return length;
    }
    if (const std::size_t length = read_slurm_table(rest, text_.records)) return length;
    if (auto job = headless_job(rest[0])) {
      text_.records.push_back(std::move(*job));
      return 1;
    }
    if (auto node = headless_node(rest[0])) {
      text_.records.push_back(std::move(*node));
      return 1;
    }
    return take_gres(rest[0]) || take_cpus(rest[0]) ? 1 : 0;
  }

  /// "Key = Value" lines in sections, up to two empty lines or what is none.
  std::size_t take_configuration(std::span<const Line> rest) {
    if (!rest[0].text.starts_with(kConfigurationBegins) || !rest[0].ended) return 0;
    text_.date = trim(std::string_view(rest[0].text).substr(kConfigurationBegins.size()));
    std::size_t length = 1;
    for (; length < rest.size(); ++length) {
      const std::string_view line = rest[length].text;
      const std::size_t equals = line.find(" = ");
      const bool section = line.ends_with("Configuration:") || line.starts_with("Slurmctld(");
      if (!line.empty() && !section && equals == std::string_view::npos) break;
      if (equals != std::string_view::npos && rest[length].ended)
        text_.configuration.try_emplace(std::string(trim(line.substr(0, equals))), trim(line.substr(equals + 3)));
    }
    return length;
  }

  /// "Gres=gpu:a100:4" alone, picked out with grep; the command before it may name the node.
  bool take_gres(const Line& line) {
    const std::string_view text = trim(line.text);
    if (!text.starts_with("Gres=") || text.contains(' ') || !line.ended || !gpus_of_gres(text.substr(5))) return false;
    SlurmRecord record{SlurmThing::node, line.number, {{"Gres", std::string(text.substr(5))}}};
    const auto words = at_ == 0 ? std::vector<std::string_view>{} : split_words(lines_[at_ - 1].text);
    const auto node = std::ranges::find(words, "node");
    if (node != words.end() && node + 1 != words.end() && std::ranges::find(words, "scontrol") != words.end())
      record.cells.emplace_back("NodeName", *(node + 1));
    text_.records.push_back(std::move(record));
    return true;
  }

  /// "5725/877/34/6636" alone on its line: allocated, idle, other and their sum.
  bool take_cpus(const Line& line) {
    const auto parts = split(trim(line.text), '/');
    if (parts.size() != 4 || text_.cpus || !line.ended) return false;
    std::int64_t numbers[4] = {};
    for (std::size_t i = 0; i < 4; ++i) {
      const auto number = parse_integer(parts[i]);
      if (!number || *number < 0 || *number > 1'000'000'000) return false;
      numbers[i] = *number;
    }
    if (numbers[3] == 0 || numbers[0] + numbers[1] + numbers[2] != numbers[3]) return false;
    text_.cpus = {static_cast<int>(numbers[0]), static_cast<int>(numbers[1]), static_cast<int>(numbers[2]),
                  static_cast<int>(numbers[3])};
    return true;
  }

  std::vector<Line>& lines_;
  std::size_t at_ = 0;
  SlurmText text_;
};

std::string shown(std::string_view text) { return printable(trim(text)); }

std::optional<int> number_in(std::string_view text) {
  const auto number = parse_integer(text);
  return number && *number >= 0 && *number < 1'000'000'000 ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

/// "270/66/0/336": the last one is the sum.
std::optional<int> total_of(std::string_view text) { return number_in(text.substr(text.rfind('/') + 1)); }

/// The records so far, found by their names: a big cluster has very many.
template <class T>
class Entries {
 public:
  Entries(std::vector<T>& entries, std::string T::* key) : entries_(entries), key_(key) {}

  /// The entry of this name, a new one where there is none yet.
  T& at(const std::string& name) {
    const auto [found, added] = places_.try_emplace(name, entries_.size());
    if (added) entries_.emplace_back().*key_ = name;
    return entries_[found->second];
  }

  /// An entry that has no name.
  T& add() { return entries_.emplace_back(); }

 private:
  std::vector<T>& entries_;
  std::string T::* key_;
  std::unordered_map<std::string, std::size_t> places_;
};

struct Cluster {
  explicit Cluster(SlurmFacts& facts)
      : nodes(facts.nodes, &SlurmNode::name),
        jobs(facts.jobs, &SlurmJob::id),
        partitions(facts.partitions, &SlurmPartition::name) {}
  Entries<SlurmNode> nodes;
  Entries<SlurmJob> jobs;
  Entries<SlurmPartition> partitions;
};

void keep(std::string& value, std::string_view text) {
  if (value.empty()) value = shown(text);
}

void keep(std::optional<int>& value, const std::optional<int>& other) {
  if (!value) value = other;
}

void read_node(const SlurmRecord& record, Cluster& cluster) {
  const std::string name = shown(record.first({"NodeName", "HOSTNAMES", "NODELIST"}));
  const std::string_view state = record.first({"State", "STATE", "REASON"});
  const std::string_view gres = record.first({"Gres", "GRES"});
  const bool counted = name.empty() && !record.first({"NODES"}).empty();
  if ((name.empty() && !counted) || name == "DEFAULT" || (state.empty() && gres.empty())) return;
  SlurmNode& node = counted ? cluster.nodes.add() : cluster.nodes.at(name);
  if (const auto count = number_in(record.first({"NODES"})); count && *count > 0) node.count = *count;
  if (const std::string_view word = record.first({"State", "STATE"}); is_node_state(word)) keep(node.state, word);
  keep(node.reason, record.first({"Reason", "REASON"}));
  keep(node.gres, gres);
  keep(node.gpus, gpus_of_gres(gres));
  if (!node.gpus) node.gpus = gpus_of_tres(record.first({"CfgTRES"}));
  keep(node.gpus_allocated, gpus_of_gres(record.first({"GresUsed", "GRES_USED"})));
  keep(node.gpus_allocated, gpus_of_tres(record.first({"AllocTRES"})));
  keep(node.cpus, number_in(record.first({"CPUTot", "CPUs"})));
  if (node.count == 1) keep(node.cpus, total_of(record.first({"CPUS(A/I/O/T)"})));
  for (std::string_view partition : split(record.first({"Partitions", "PARTITION"}), ',')) {
    if (partition.ends_with('*')) partition.remove_suffix(1);
    const std::string text = shown(partition);
    if (!text.empty() && std::ranges::find(node.partitions, text) == node.partitions.end())
      node.partitions.push_back(text);
  }
}

/// A line of gres.conf: GPUs of the nodes that it names, else of the node whose file it is. Lines of a node add up.
void read_gres(const SlurmRecord& record, Cluster& cluster, SlurmFacts& facts) {
  const auto gpus = gpus_of_gres_line(record);
  const std::string type = shown(record.first({"Type"}));
  std::string text = "gpu" + (type.empty() ? "" : ":" + type);
  if (gpus) text += fmt::format(":{}", *gpus);
  const std::string name = shown(record.first({"NodeName"}));
  const std::string found = to_lower(record.first({"AutoDetect"}));
  if (!gpus && to_lower(record.first({"Name"})) != "gpu" && (found.empty() || found == "off")) return;
  if (name.empty()) {
    if (facts.gres.size() < kMostGres) facts.gres.push_back(text);
    return;
  }
  SlurmNode& node = cluster.nodes.at(name);
  node.gres += (node.gres.empty() ? "" : ",") + text;
  if (gpus) node.gpus = node.gpus.value_or(0) + *gpus;
}

/// GPUs of a whole job: granted, else asked for, else those of each node times the nodes.
std::optional<int> gpus_of_job(const SlurmRecord& record) {
  auto gpus = gpus_of_tres(record.first({"AllocTRES", "TRES", "TRES_ALLOC", "ALLOCTRES"}));
  if (!gpus) gpus = gpus_of_tres(record.first({"ReqTRES", "REQTRES"}));
  if (gpus) return gpus;
  const auto nodes = number_in(record.first({"NumNodes", "NODES", "NNODES"}));
  const auto each = gpus_of_gres(record.first({"TresPerNode", "TRES_PER_NODE", "Gres", "GRES"}));
  if (!each || !nodes || *nodes > 1'000'000 || *each > 1000) return std::nullopt;
  return *each * *nodes;
}

void read_job(const SlurmRecord& record, Cluster& cluster) {
  const std::string id = shown(record.first({"JobId", "JOBID", "JOBIDRAW"}));
  if (!is_job_id(id)) return;
  SlurmJob& job = cluster.jobs.at(id);
  keep(job.state, job_state(record.first({"JobState", "STATE", "ST"})));
  keep(job.name, record.first({"JobName", "JOBNAME", "NAME"}));
  keep(job.partition, record.first({"Partition", "PARTITION"}));
  // sacct says so of a job that has none yet.
  if (const auto nodes = record.first({"NodeList", "NODELIST"}); nodes != "None assigned") keep(job.nodes, nodes);
  keep(job.reason, record.first({"Reason", "REASON"}));
  keep(job.exit_code, record.first({"ExitCode", "EXITCODE"}));
  keep(job.gpu_places, record.first({"GRES"}).contains("IDX:") ? record.first({"GRES"}) : "");
  keep(job.gpus, gpus_of_job(record));
  // A job that waits has its reason in the place of its nodes.
  const std::string_view place = record.first({"NODELIST(REASON)"});
  if (place.starts_with('('))
    keep(job.reason, place.ends_with(')') ? place.substr(1, place.size() - 2) : place.substr(1));
  else
    keep(job.nodes, place);
}

void read_partition(const SlurmRecord& record, Cluster& cluster) {
  std::string name = shown(record.first({"PartitionName", "PARTITION"}));
  if (name.ends_with('*')) name.pop_back();
  if (name.empty() || name == "DEFAULT" || name.contains(',')) return;
  const std::string_view state = record.first({"AVAIL"});
  const bool own = record.thing == SlurmThing::partition;
  if (!own && state.empty()) return;
  SlurmPartition& partition = cluster.partitions.at(name);
  keep(partition.state, to_lower(own ? record.first({"State"}) : state));
  keep(partition.time_limit, record.first({"MaxTime", "TIMELIMIT"}));
  keep(partition.gpus, gpus_of_tres(record.first({"TRES"})));
  keep(partition.nodes, number_in(record.first({"TotalNodes"})));
  if (const std::string_view use = record.first({"NODES(A/I/O/T)"}); !use.empty()) keep(partition.nodes, total_of(use));
}

std::string configured(const SlurmText& text, std::string_view key) {
  const auto found = text.configuration.find(key);
  return found == text.configuration.end() || found->second == "(null)" ? "" : shown(found->second);
}

void read_configuration(const SlurmText& text, SlurmFacts& facts) {
  if (const auto version = configured(text, "SLURM_VERSION"); !version.empty()) facts.version = version;
  if (const auto cluster = configured(text, "ClusterName"); !cluster.empty()) facts.cluster = cluster;
  const std::string constrain = to_lower(configured(text, "ConstrainDevices"));
  if (constrain == "yes" || constrain == "no") facts.constrain_devices = constrain == "yes";
}

}  // namespace

std::optional<SlurmText> take_slurm(std::vector<Line>& lines) { return Taker(lines).take(); }

facts::Snapshot snapshot_of_slurm(const SlurmText& text) {
  facts::Snapshot snapshot;
  snapshot.source = "report";
  SlurmFacts& facts = snapshot.environment.emplace().slurm.emplace();
  read_configuration(text, facts);
  facts.cpus = text.cpus;
  Cluster cluster(facts);
  for (const SlurmRecord& record : text.records) {
    if (record.thing == SlurmThing::job) {
      read_job(record, cluster);
    } else if (record.thing == SlurmThing::gres) {
      read_gres(record, cluster, facts);
    } else {
      read_partition(record, cluster);
      if (record.thing == SlurmThing::node) read_node(record, cluster);
    }
  }
  return snapshot;
}

}  // namespace gpuwarden::capture
