// SPDX-License-Identifier: Apache-2.0
// Reads what people publish and mail around - nvidia-smi in all its forms, kernel logs, other vendors' tools,
// gpuwarden's own snapshots, several of them in one file - as the facts of the machine they were taken on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

/// What a file holds; unpacked where it was an archive.
struct NamedText {
  std::string name;
  std::string text;
};

enum class Kind {
  gpuwarden_json,  ///< gpuwarden snapshot
  smi_xml,         ///< nvidia-smi -q -x
  smi_query,       ///< nvidia-smi -q
  smi_table,       ///< nvidia-smi
  smi_list,        ///< nvidia-smi -L
  smi_csv,         ///< nvidia-smi --query-gpu=... --format=csv
  smi_apps_csv,    ///< nvidia-smi --query-compute-apps=... --format=csv
  topology,        ///< nvidia-smi topo -m
  p2p,             ///< nvidia-smi topo -p2p
  nvlink,          ///< nvidia-smi nvlink -s
  dmon,            ///< nvidia-smi dmon
  pmon,            ///< nvidia-smi pmon
  smi_version,     ///< nvidia-smi --version
  smi_error,       ///< nvidia-smi gives up
  kernel_log,
  rocm_smi,     ///< rocm-smi --json
  amd_smi,      ///< amd-smi ... --json
  xpu_smi,      ///< xpu-smi, xpumcli
  collect_env,  ///< python -m torch.utils.collect_env, and vLLM's
  sglang_env,   ///< python -m sglang.check_env
  ds_report,    ///< DeepSpeed's
  library_env,  ///< transformers-cli env, accelerate env, JAX's print_environment_info
  program,      ///< what programs print of the machine when they start or are asked: ComfyUI, llama.cpp, deviceQuery
  toolkit,      ///< nvcc, /proc/driver/nvidia/version, ldconfig -p, pip freeze
  system,       ///< uname, os-release, lsmod, modinfo, dpkg -l, gcc --version, systemctl status, env
  slurm,        ///< scontrol show ..., sinfo, squeue, sacct
  messages,     ///< error messages of frameworks about the machine
};
std::string_view to_string(Kind kind);

/// A stretch of a file that was recognised.
struct Part {
  Kind kind;
  std::uint32_t line = 0;  ///< its first, from 1
};

struct Capture {
  std::vector<Part> parts;
  /// All parts together. origin names the file and its kinds (but for gpuwarden's own, which comes back as written);
  /// taken_at is the capture's own time where it tells one, read as UTC. Numbers outside what hardware can be are left
  /// out.
  facts::Snapshot snapshot;
  /// What was left out and why, with its line: a second machine in the same file.
  std::vector<std::string> warnings;
};

/// Reads a text of any kind, recognised by its content; `name` is the file's, for origin and messages. Truncated and
/// damaged text loses values, never gets wrong ones. Fails with corrupt where nothing is recognised.
Result<Capture> read_capture(std::string_view text, std::string_view name);

/// Adds another capture of the same machine. Of a second machine only a warning is added.
void add_capture(Capture& whole, Capture part);

/// The machine in an nvidia-smi -q -x log alone; fails with corrupt on text that is no such log.
Result<facts::Snapshot> snapshot_from_smi_xml(std::string_view xml);

}  // namespace gpuwarden::capture
