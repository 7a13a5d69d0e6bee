// SPDX-License-Identifier: Apache-2.0
#include "capture/merge_environment.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <utility>

#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::capture {
namespace {

using facts::Environment;
using facts::PythonEnvironment;
using Json = nlohmann::json;

/// Appends the entries of `part` that `whole` has not, by the member that names them.
template <class T, class Key>
void join(std::vector<T>& whole, std::vector<T>& part, Key key) {
  std::set<std::decay_t<std::invoke_result_t<Key, const T&>>> known;
  for (const T& entry : whole) known.insert(std::invoke(key, entry));
  for (T& entry : part) {
    if (known.insert(std::invoke(key, std::as_const(entry))).second) whole.push_back(std::move(entry));
  }
}

bool is_gap(const Json& value) {
  return value.is_null() || (value.is_array() && value.empty()) || (value.is_object() && value.empty());
}

/// Fills the gaps of `whole` from `part`. Records and their optional members are all the JSON has.
void fill(Json& whole, const Json& part) {
  if (!whole.is_object() || !part.is_object()) {
    if (is_gap(whole)) whole = part;
    return;
  }
  for (const auto& [key, value] : part.items()) fill(whole[key], value);
}

/// The parts that are single records: filled through their JSON, so that no member can be forgotten here.
void fill_records(Environment& whole, const Environment& part) {
  Environment mine;
  mine.driver = whole.driver;
  mine.containers = whole.containers;
  mine.host = whole.host;
  mine.slurm = whole.slurm;
  Environment theirs;
  theirs.driver = part.driver;
  theirs.containers = part.containers;
  theirs.host = part.host;
  theirs.slurm = part.slurm;
  Json under = facts::to_json(mine);
  fill(under, facts::to_json(theirs));
  auto filled = facts::environment_from_json(under);
  if (!filled) return;
  whole.driver = std::move(filled->driver);
  whole.containers = std::move(filled->containers);
  whole.host = std::move(filled->host);
  whole.slurm = std::move(filled->slurm);
}

/// A report has one Python; a second text about it only adds.
void merge_pythons(std::vector<PythonEnvironment>& whole, std::vector<PythonEnvironment>& part) {
  for (PythonEnvironment& other : part) {
    const auto known = std::ranges::find_if(
        whole, [&](const PythonEnvironment& python) { return python.path == other.path && python.kind == other.kind; });
    if (known == whole.end()) {
      whole.push_back(std::move(other));
      continue;
    }
    join(known->packages, other.packages, &facts::PythonPackage::name);
    if (known->torch_architectures.empty()) known->torch_architectures = std::move(other.torch_architectures);
    const auto keep = [](auto& mine, auto& theirs) {
      if (!mine) mine = std::move(theirs);
    };
    keep(known->version, other.version);
    keep(known->torch_cuda, other.torch_cuda);
    keep(known->torch_rocm, other.torch_rocm);
    keep(known->torch_debug, other.torch_debug);
    keep(known->cuda_available, other.cuda_available);
    keep(known->cuda_runtime, other.cuda_runtime);
    keep(known->cudnn, other.cudnn);
    keep(known->nccl, other.nccl);
  }
}

}  // namespace

void merge(Environment& whole, Environment part) {
  fill_records(whole, part);
  if (part.slurm && whole.slurm) {
    join(whole.slurm->nodes, part.slurm->nodes, &facts::SlurmNode::name);
    join(whole.slurm->jobs, part.slurm->jobs, &facts::SlurmJob::id);
    join(whole.slurm->partitions, part.slurm->partitions, &facts::SlurmPartition::name);
  }
  merge_pythons(whole.pythons, part.pythons);
  join(whole.device_nodes, part.device_nodes, &facts::DeviceNode::path);
  join(whole.libraries, part.libraries, &facts::Library::path);
  if (part.compilers_sought) whole.compilers_sought = part.compilers_sought;
  join(whole.compilers, part.compilers, &facts::Compiler::name);
  join(whole.services, part.services, &facts::Service::name);
  join(whole.variables, part.variables, &facts::Variable::name);
  join(whole.messages, part.messages, [](const facts::ReportedMessage& one) { return std::pair(one.kind, one.value); });
  join(whole.not_probed, part.not_probed, &facts::NotProbed::what);
  for (facts::Toolkit& toolkit : part.toolkits) {
    const auto known = std::ranges::find(whole.toolkits, toolkit.version, &facts::Toolkit::version);
    if (known == whole.toolkits.end()) {
      whole.toolkits.push_back(std::move(toolkit));
    } else if (known->architectures.empty()) {
      known->architectures = std::move(toolkit.architectures);
    }
  }
}

}  // namespace gpuwarden::capture
