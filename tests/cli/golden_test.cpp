// SPDX-License-Identifier: Apache-2.0
// Whole transcripts, as a user sees them. GPUWARDEN_UPDATE_GOLDEN=1 writes them anew; read the difference before you
// commit it.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <regex>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/source_folder.hpp"

namespace gpuwarden {
namespace {

const std::filesystem::path kFolder = testing::source_folder() / "tests/cli/golden";

struct Transcript {
  const char* name;
  std::vector<std::string> words;
};

/// A frozen node with everything a listing can show: load, MIG, a sharer, a GPU in trouble, a product without fans.
constexpr std::string_view kFleet = R"(name: lab
driver: 550.54.15
cuda: "12.4"
clock: {frozen: true}
gpus:
  - model: NVIDIA H100 80GB HBM3
    uuid: GPU-00000000-1111-2222-3333-444444444440
    processes: [{pid: 4194001, user: ada, command: python train.py --model llama --data /very/long/path, memory: 60GiB, utilization: 97}]
  - model: NVIDIA H100 80GB HBM3
    uuid: GPU-00000000-1111-2222-3333-444444444441
    mig: {enabled: true, instances: [3g.40gb, 1g.10gb]}
  - model: NVIDIA H100 80GB HBM3
    uuid: GPU-00000000-1111-2222-3333-444444444442
    faults: [lost]
  - model: NVIDIA GeForce RTX 4090
    uuid: GPU-00000000-1111-2222-3333-444444444443
    processes: [{pid: 4194002, user: bob, command: /usr/lib/xorg/Xorg, memory: 200MiB, type: G}, {pid: 4194003, user: bob, command: ollama serve, memory: 9GiB}]
)";

constexpr std::string_view kMixed =
    "Help! My node says:\n"
    "| NVIDIA-SMI 535.104.12             Driver Version: 537.42       CUDA Version: 12.2     |\n"
    "|   0  NVIDIA RTX A4000               On  | 00000000:2D:00.0  On |                    0 |\n"
    "| 41%   36C    P8              11W / 140W |   1323MiB / 15352MiB |      1%      Default |\n"
    "GPU 0: NVIDIA RTX A4000 (UUID: GPU-aaaaaaaa-1111-2222-3333-444444444440)\n"
    "[  12.5] NVRM: Xid (PCI:0000:2d:00): 31, pid=77, name=python, MMU Fault\n"
    "[  12.6] NVRM: Xid (PCI:0000:2d:00): 31, pid=77, name=python, MMU Fault\n";

class Golden : public testing::Program {
 protected:
  std::vector<Transcript> transcripts() const {
    const std::string fleet = file("lab.yaml", kFleet);
    const std::string mixed = file("mixed.txt", kMixed);
    return {
        {"list", {"list", "--simulate", fleet}},
        {"list_processes", {"list", "--processes", "--simulate", fleet}},
        {"list_one", {"list", "-i", "0", "--simulate", fleet}},
        {"list_from", {"list", "--from", mixed}},
        {"memory", {"memory", "--simulate", fleet}},
        {"select_explain", {"select", "-n", "1", "--explain", "--simulate", fleet}},
        {"select_mig", {"select", "--mig", "-n", "2", "--explain", "--simulate", fleet}},
        {"select_too_many", {"select", "-n", "3", "--simulate", fleet}},
        {"select_from", {"select", "-n", "1", "--from", mixed}},
        {"select_model", {"select", "--model", "llama-3.1-8b", "--task", "lora", "--simulate", fleet, "--explain"}},
        {"select_model_too_big",
         {"select", "--model", "llama-3.1-70b", "--task", "inference", "--simulate", "rtx4090x2"}},
        {"select_model_size", {"select", "--model-size", "140GB", "--simulate", "a100x4"}},
        {"select_model_unknown", {"select", "--model", "lama-3.1-8b", "--simulate", fleet}},
        {"sim_list", {"sim", "list"}},
        {"overview", {"help"}},
        {"help_list", {"list", "--help"}},
        {"help_select", {"select", "--help"}},
        {"help_run", {"run", "--help"}},
        {"help_plan", {"plan", "--help"}},
        {"help_slurm", {"slurm", "--help"}},
        {"help_snapshot", {"snapshot", "--help"}},
        {"help_compat", {"compat", "--help"}},
        {"help_diagnose", {"diagnose", "--help"}},
        {"help_memory", {"memory", "--help"}},
        {"compat_machine", {"compat", "--from", mixed, "--on", "2026-11-21"}},
        {"compat_cuda", {"compat", "cu124", "--driver", "535.104.05", "--gpu", "RTX 4090"}},
        {"compat_torch",
         {"compat", "torch==2.5.1+cu124", "--driver", "570.86.16", "--gpu", "RTX 5090", "--on", "2026-11"}},
        {"compat_gpu", {"compat", "H100 PCIe", "--on", "2026-11-21", "--why"}},
        {"compat_xid", {"compat", "xid", "79"}},
        {"compat_job", {"compat", "train", "llama-3-8b", "--gpu", "H100 PCIe,A100,RTX 4090"}},
        {"compat_matrix", {"compat", "--matrix", "--gpu", "L4,V100", "--driver", "550.54.15", "--on", "2026-11-21"}},
        {"help_bundle", {"bundle", "--help"}},
        {"unknown_command", {"lsit"}},
        {"unknown_option", {"list", "--proceses"}}};
  }

  /// Times, host and the test's own folder differ from run to run.
  std::string settled(std::string text) const {
    for (std::size_t at = text.find(dir_.path().string()); at != std::string::npos;
         at = text.find(dir_.path().string()))
      text.replace(at, dir_.path().string().size(), "DIR");
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    const std::string place = "  " + std::string(host.data()) + "  ";
    for (std::size_t at = text.find(place); at != std::string::npos; at = text.find(place))
      text.replace(at, place.size(), "  HOST  ");
    return std::regex_replace(text, std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"), "TIME");
  }
};

TEST_F(Golden, TranscriptsAreAsCommitted) {
  for (const Transcript& transcript : transcripts()) {
    const auto done = run(transcript.words);
    std::string text = settled(done.standard_output + (done.standard_error.empty() ? "" : "--- stderr\n") +
                               done.standard_error + "--- exit " + std::to_string(done.exit_code.value_or(-1)) + "\n");
    // The planner's figures have tests of their own.
    if (std::string_view(transcript.name).starts_with("select_model"))
      text = std::regex_replace(text, std::regex(R"(\d+(\.\d)? GiB|\(\d+\.\d|\d+\.\d\))"), "N");
    const auto path = kFolder / (std::string(transcript.name) + ".txt");
    if (std::getenv("GPUWARDEN_UPDATE_GOLDEN") != nullptr) {
      ASSERT_TRUE(write_file_atomically(path, text));
    }
    EXPECT_EQ(read_file(path).value_or("(missing)"), text) << transcript.name;
  }
}

}  // namespace
}  // namespace gpuwarden
