// SPDX-License-Identifier: Apache-2.0
// Options that several commands share, and what they mean.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "command.hpp"
#include "gpuwarden/placement/job_config.hpp"
#include "gpuwarden/placement/request.hpp"

namespace gpuwarden::cli {

inline constexpr auto kCommonOptions = std::to_array<Option>({
    {"--simulate", OptionKind::text, "SPEC",
     "use a simulated fleet: a preset, a YAML file, a capture, a started fleet"},
    {"--json", OptionKind::flag, "", "print JSON"},
    {"--timeout", OptionKind::text, "DURATION", "how long the driver, and then each GPU, may take to answer (5s)"},
    {"--probe", OptionKind::text, "auto|nvml|nvidia-smi", "whom to ask; auto: NVML, else nvidia-smi"},
    {"--wake", OptionKind::flag, "", "read sleeping GPUs too, which wakes them"},
    {"--color", OptionKind::text, "WHEN", "auto, always or never (NO_COLOR is honoured)"},
    {"-h,--help", OptionKind::flag, "", "show this help"},
});

inline constexpr auto kSelectionOptions = std::to_array<Option>({
    {"-n,--num-gpus", OptionKind::text, "N", "how many GPUs (1)"},
    {"--gpu-ids", OptionKind::list, "ID...", "exactly these: indices, UUIDs or their beginnings, PCI bus ids"},
    {"--all", OptionKind::flag, "", "every GPU that fits"},
    {"--min-memory", OptionKind::text, "SIZE", "memory of each GPU, at least"},
    {"--min-free-memory", OptionKind::text, "SIZE", "free memory of each GPU, at least"},
    {"--max-utilization", OptionKind::text, "PERCENT", "utilization of each GPU, at most"},
    {"--min-compute-capability", OptionKind::text, "X.Y", "compute capability, at least"},
    {"--name", OptionKind::text, "TEXT", "GPUs whose name contains this"},
    {"--model", OptionKind::text, "MODEL", "as many GPUs as this model needs: a name, a config.json, its folder"},
    {"--model-size", OptionKind::text, "SIZE", "the same of a model of 7B parameters, or of 140GB of weights"},
    {"--mig", OptionKind::flag, "", "MIG instances instead of whole GPUs"},
    {"--mig-profile", OptionKind::text, "PROFILE", "MIG instances of this profile, for example 1g.10gb"},
    {"--prefer", OptionKind::list, "ID...", "try these first, in this order"},
    {"--exclude", OptionKind::list, "ID...", "never these"},
    {"--share", OptionKind::flag, "", "share the GPUs with others who share"},
    {"--allow-busy", OptionKind::flag, "", "take GPUs although processes without a lease use them"},
    {"--device", OptionKind::text, "cpu|cuda", "cpu: no GPU at all"},
    {"--wait", OptionKind::optional, "DURATION", "wait in line until the GPUs can be had"},
    {"--config", OptionKind::text, "FILE", "YAML configuration (docs/cli.md)"},
});

/// For commands that judge by the knowledge base (machine.hpp).
inline constexpr auto kKnowledgeOptions = std::to_array<Option>({
    {"--knowledge", OptionKind::repeated, "FILE",
     "YAML to lay over the knowledge base: newer releases, rules of a site"},
});

/// The request behind --config, environment (GPUWARDEN_NUM_GPUS ...) and flags, in rising precedence. Fills `args`
/// with what comes from environment and file.
struct Selection {
  placement::Request request;
  placement::JobConfig config;
  std::optional<std::chrono::milliseconds> wait;  ///< given; max() for no limit
};
Result<Selection> read_selection(Context& context);

/// Two options that mean nothing together, and what to do instead.
struct Clash {
  const char* one;
  const char* other;
  const char* hint;
};
/// Fails with invalid_argument for the first two that were both given: told, not left out in silence.
Result<void> check_clashes(const Args& args, std::span<const Clash> clashes);

/// Values of single options; fail with invalid_argument naming the option.
Result<std::optional<std::uint32_t>> count_option(const Args& args, const std::string& key, std::uint32_t most);
Result<std::optional<Bytes>> size_option(const Args& args, const std::string& key);
Result<std::optional<std::chrono::milliseconds>> duration_option(const Args& args, const std::string& key);

}  // namespace gpuwarden::cli
