// SPDX-License-Identifier: Apache-2.0
// The program on machines made of files: no NVML, other makers' GPUs, processes that NVML does not list.
#include "cli/program.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/stand_in.hpp"

namespace gpuwarden {
namespace {

using ::testing::HasSubstr;
using testing::kSmiLog;
using ::testing::Not;
using testing::Program;
using testing::StandIn;

class ProbeCli : public Program {
 protected:
  ProbeCli() {
    environment_["GPUWARDEN_NVML_LIBRARY"] = (machine_.dir() / "no/libnvidia-ml.so.1").string();
    environment_["GPUWARDEN_NVIDIA_SMI"] = (machine_.dir() / "no/nvidia-smi").string();
    environment_["GPUWARDEN_SYS_ROOT"] = machine_.sys().string();
    environment_["GPUWARDEN_PROC_ROOT"] = machine_.proc().string();
  }
  void install_smi(std::string_view output, int code = 0) {
    environment_["GPUWARDEN_NVIDIA_SMI"] = machine_.program(output, code).string();
  }

  StandIn machine_;
};

TEST_F(ProbeCli, EveryCommandWorksThroughNvidiaSmi) {
  machine_.h100();
  std::string idle(kSmiLog);
  idle.replace(idle.find("<process_info>"), idle.find("</processes>") - idle.find("<process_info>"), "");
  idle.replace(idle.find("1024 MiB"), 8, "4 MiB");
  install_smi(idle);
  for (const char* probe : {"auto", "nvidia-smi"}) {
    const auto list = json({"list", "--probe", probe});
    EXPECT_EQ(list["source"], "nvidia-smi");
    EXPECT_EQ(list["gpus"][0]["name"], "NVIDIA H100 80GB HBM3");
    EXPECT_TRUE(list["problem"].is_null());
    EXPECT_EQ(run({"select", "--probe", probe}).standard_output, "GPU-17\n");
    const auto done = run({"run", "--probe", probe, "-q", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"});
    EXPECT_EQ(done.exit_code, 0) << done.standard_error;
    EXPECT_EQ(done.standard_output, "GPU-17\n");
    EXPECT_EQ(nlohmann::json::parse(run({"snapshot", "--probe", probe}).standard_output)["source"], "nvidia-smi");
  }
  EXPECT_EQ(run({"list", "--probe", "nvml"}).exit_code, 3);
}

TEST_F(ProbeCli, WhichProbeIsCheckedFirst) {
  expect_error({"list", "--probe", "crystal-ball"}, 2, "unknown probe 'crystal-ball'");
  expect_error({"list", "--probe", "nvidia-smi", "--simulate", "t4x1"}, 2, "cannot be given together");
  environment_.erase("GPUWARDEN_NVML_LIBRARY");
  environment_.erase("GPUWARDEN_SYS_ROOT");
  environment_.erase("GPUWARDEN_PROC_ROOT");
  EXPECT_EQ(json({"list", "--probe", "auto", "--simulate", "t4x1"})["source"], "nvml");
}

TEST_F(ProbeCli, LostGpusAreNoReasonToAskSomebodyElse) {
  install_smi(kSmiLog);
  environment_.erase("GPUWARDEN_NVML_LIBRARY");
  environment_.erase("GPUWARDEN_SYS_ROOT");
  environment_.erase("GPUWARDEN_PROC_ROOT");
  const auto list = json({"list", "--simulate", file("lost.yaml", "gpus: [{model: Tesla T4, faults: [lost]}]\n")});
  EXPECT_EQ(list["source"], "nvml");
  EXPECT_EQ(list["gpus"][0]["state"], "lost");
}

TEST_F(ProbeCli, ListShowsWhoHoldsAGpuAndOnWhoseBehalf) {
  machine_.h100();
  std::string leaking(kSmiLog);
  leaking.replace(leaking.find("1024 MiB"), 8, "3072 MiB");
  install_smi(leaking);
  const std::string id(64, 'a');
  machine_.process(4194001, "python train.py", {"/dev/nvidia0"},
                   "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n");
  machine_.process(
      4194002, "python leak.py", {"/dev/nvidia0"},
      "0::/kubepods.slice/kubepods-pod90d81341_92de_11e7_8cf2_507b9d4141fa.slice/cri-containerd-" + id + ".scope\n");
  machine_.process(4194003, "jupyter", {"/dev/nvidia0"}, "0::/system.slice/docker-" + id + ".scope\n");
  const std::string text = run({"list"}).standard_output;
  EXPECT_THAT(text, HasSubstr("4194001 C   root        1000 MiB  job 4711: python train.py\n"));
  EXPECT_THAT(text, HasSubstr("4194002 -   root               ?  pod 90d81341: python leak.py\n"));
  EXPECT_THAT(text, HasSubstr("4194003 -   root               ?  container aaaaaaaaaaaa: jupyter\n"));
  for (const auto line : split(text, '\n')) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_THAT(run({"list", "-p"}).standard_output, HasSubstr("pod 90d81341: python leak.py"));
  install_smi(kSmiLog);
  EXPECT_THAT(run({"list"}).standard_output, Not(HasSubstr("leak.py"))) << "all memory has its owner";
  EXPECT_THAT(run({"list", "-p"}).standard_output, HasSubstr("leak.py"));
  const auto processes = json({"list"})["gpus"][0]["processes"];
  ASSERT_EQ(processes.size(), 3U);
  EXPECT_EQ(processes[0]["slurm_job"], "4711");
  EXPECT_EQ(processes[1]["type"], "-");
  EXPECT_EQ(processes[1]["pod"], "90d81341-92de-11e7-8cf2-507b9d4141fa");
  EXPECT_EQ(processes[1]["container"], "aaaaaaaaaaaa");
}

TEST_F(ProbeCli, OtherMakersGpusStandBelowAndAreNeverChosen) {
  machine_.amd();
  const auto alone = run({"list"});
  EXPECT_EQ(alone.exit_code, 0) << alone.standard_error;
  EXPECT_THAT(alone.standard_output, HasSubstr(" 0 AMD Instinct MI210"));
  EXPECT_THAT(alone.standard_output, HasSubstr("41/300W AMD"));
  expect_error({"select"}, 1, "not an NVIDIA GPU (AMD)");
  machine_.h100();
  install_smi(kSmiLog);
  const auto both = json({"list"});
  EXPECT_EQ(both["gpus"][0]["vendor"], "NVIDIA");
  EXPECT_EQ(both["gpus"][1]["vendor"], "AMD");
  EXPECT_EQ(both["gpus"][1]["index"], 1);
  EXPECT_EQ(run({"select", "--allow-busy"}).standard_output, "GPU-17\n");
  expect_error({"select", "--gpu-ids", "1"}, 1, "not an NVIDIA GPU (AMD)");
}

TEST_F(ProbeCli, AnAmdGpuWithoutADriverIsNoTrouble) {
  machine_.amd("");
  const auto done = run({"list"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("no driver loaded"));
}

TEST_F(ProbeCli, AnNvidiaCardWithoutADriverIsListedByName) {
  machine_.h100("");
  machine_.amd();
  const auto done = run({"list"});
  EXPECT_EQ(done.exit_code, 3);
  EXPECT_THAT(done.standard_output, HasSubstr("H100 80GB HBM3"));
  EXPECT_THAT(done.standard_output, HasSubstr("no driver loaded"));
  EXPECT_THAT(done.standard_output, HasSubstr("AMD"));
  EXPECT_EQ(run({"select"}).exit_code, 3) << "an AMD GPU does not make up for it";
}

TEST_F(ProbeCli, AJetsonCanBeListedAndChosen) {
  const auto tree = machine_.sys() / "firmware/devicetree/base";
  testing::put(tree / "model", std::string("NVIDIA Jetson Orin Nano\0", 24));
  testing::put(machine_.sys() / "devices/platform/17000000.gpu/load", "0\n");
  testing::put(machine_.proc() / "meminfo", "MemTotal: 8000000 kB\nMemAvailable: 1000000 kB\n");
  const auto done = run({"list"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("Jetson Orin Nano"));
  EXPECT_THAT(done.standard_output, HasSubstr("shares its memory with the CPU"));
  EXPECT_EQ(run({"select"}).standard_output, "0\n");
  const auto job = run({"run", "-q", "--", "sh", "-c",
                        std::string("echo $CUDA_VISIBLE_DEVICES; ") + GPUWARDEN_PROGRAM + " list | grep lease:"});
  EXPECT_THAT(job.standard_output, ::testing::StartsWith("0\n   lease: ")) << job.standard_error;
}

}  // namespace
}  // namespace gpuwarden
