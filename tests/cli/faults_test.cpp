// SPDX-License-Identifier: Apache-2.0
// The program on drivers that hang, crash and rave, and on an output that takes nothing: what the exit code says.
#include <algorithm>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "support/stand_in.hpp"

namespace gpuwarden {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Program;
using testing::StandIn;

class FaultsCli : public Program {
 protected:
  FaultsCli() {
    environment_["GPUWARDEN_NVML_LIBRARY"] = GPUWARDEN_FAKE_NVML;
    environment_["GPUWARDEN_NVIDIA_SMI"] = (machine_.dir() / "no/nvidia-smi").string();
    environment_["GPUWARDEN_SYS_ROOT"] = machine_.sys().string();
    environment_["GPUWARDEN_PROC_ROOT"] = machine_.proc().string();
    environment_["FAKE_NVML_GPUS"] = "4";
    environment_["FAKE_NVML_LOG"] = log();
  }
  std::string log() const { return (machine_.dir() / "calls").string(); }
  void break_with(const std::string& faults) { environment_["FAKE_NVML_FAULTS"] = faults; }
  /// The program with its standard output redirected as a shell writes it: "> /dev/full".
  Completed run_into(const std::string& redirection, const std::string& words) const {
    const auto done = testing::run_patiently(
        {.argv = {"sh", "-c", std::string("exec '") + GPUWARDEN_PROGRAM + "' " + words + " " + redirection},
         .environment = environment_});
    EXPECT_TRUE(done.has_value());
    return done.value_or(Completed{});
  }

  StandIn machine_;
};

TEST_F(FaultsCli, ADriverThatDoesNotAnswerIsNoMachineWithoutGpus) {
  struct Row {
    const char* faults;
    const char* words;
  };
  for (const Row& row :
       {Row{"nvmlInit_v2=hang", "did not answer within 1500 ms"}, Row{"nvmlInit_v2=crash", "crashed (signal 11)"},
        Row{"nvmlDeviceGetCount_v2=hang", "did not answer within 1500 ms"},
        Row{"nvmlDeviceGetCount_v2=17", "does not say how many GPUs there are"},
        Row{"nvmlDeviceGetCount_v2=nonsense", "4294967295 GPUs, which no machine has"}}) {
    break_with(row.faults);
    const auto list = run({"list", "--timeout", "1500ms"});
    EXPECT_EQ(list.exit_code, 3) << row.faults;
    EXPECT_THAT(list.standard_error, HasSubstr(row.words)) << row.faults;
    EXPECT_THAT(list.standard_error, Not(HasSubstr("\x1b")));
    EXPECT_EQ(run({"snapshot", "--timeout", "1500ms"}).exit_code, 3) << row.faults;
    EXPECT_EQ(run({"select", "--timeout", "1500ms"}).exit_code, 3) << row.faults;
    const auto doctor = run({"doctor", "--no-environment", "--timeout", "1500ms"});
    EXPECT_EQ(doctor.exit_code, 1) << row.faults << doctor.standard_output;
  }
}

TEST_F(FaultsCli, AGpuThatHangsCostsARunOneDeadline) {
  const std::string call = "nvmlDeviceGetHandleByIndex_v2:1";
  break_with(call + "=hang");
  const auto done =
      run({"run", "-q", "-n", "3", "--timeout", "1500ms", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_EQ(done.standard_output, "GPU-0,GPU-2,GPU-3\n");
  const std::string calls = read_file(log()).value_or("");
  EXPECT_EQ(std::ranges::count(calls, '\n'), 1) << calls;
  EXPECT_EQ(run({"list", "--timeout", "1500ms"}).exit_code, 1) << "a GPU is in trouble";
}

TEST_F(FaultsCli, WhatCannotBeReadIsNotFree) {
  break_with("nvmlDeviceGetComputeRunningProcesses_v3:0=999");
  EXPECT_EQ(run({"select"}).standard_output, "GPU-1\n");
  const auto refused = run({"select", "--gpu-ids", "0"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.standard_error, HasSubstr("its processes could not be read"));
  EXPECT_EQ(json({"select", "--gpu-ids", "0"})["rejected"][0]["kind"], "use_unknown");
  EXPECT_EQ(run({"select", "--gpu-ids", "0", "--allow-busy"}).standard_output, "GPU-0\n");
  break_with("nvmlDeviceGetUUID:1=nonsense");
  EXPECT_EQ(run({"select", "--all"}).standard_output, "GPU-0,GPU-2,GPU-3\n");
  EXPECT_EQ(run({"run", "-q", "-n", "4", "--", "true"}).exit_code, 1);
}

TEST_F(FaultsCli, WhereNoGpuHasMigThatIsSaid) {
  expect_error({"select", "--mig"}, 1, "no GPU of this machine has MIG enabled");
}

TEST_F(FaultsCli, NoTimeAtAllIsAMistake) {
  for (const char* zero : {"0", "0s", "0ms"}) {
    const auto done = run({"list", "--timeout", zero});
    EXPECT_EQ(done.exit_code, 2) << zero;
    EXPECT_THAT(done.standard_error, Not(HasSubstr("reboot")));
  }
}

TEST_F(FaultsCli, AnOutputThatTakesNothingIsAnErrorSaidOnce) {
  const std::pair<const char*, const char*> outputs[] = {{"> /dev/full", "No space left on device"},
                                                         {">&-", "Bad file descriptor"}};
  for (const auto& [redirection, reason] : outputs) {
    for (const char* words : {"list", "list --json", "select", "doctor --no-environment", "snapshot", "help",
                              "--version", "list --help", "env explain", "man", "completion bash", "sim list"}) {
      const auto done = run_into(redirection, words);
      EXPECT_EQ(done.exit_code, 3) << words << redirection;
      const std::string& said = done.standard_error;
      const auto at = said.find(std::string("cannot write to standard output: ") + reason);
      ASSERT_NE(at, std::string::npos) << words << redirection << ": " << said;
      EXPECT_EQ(said.find("cannot write", at + 1), std::string::npos) << words << ": " << said;
    }
  }
}

TEST_F(FaultsCli, WhatPrintsNothingNeedsNoOutput) {
  const auto done = run_into(">&-", "run -q -n 1 -- true");
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_EQ(run_into("| :", "list --json").standard_error, "") << "nobody reads: no error";
  EXPECT_THAT(run_into(">&-", "list --bogus").standard_error, HasSubstr("unknown option"));
}

}  // namespace
}  // namespace gpuwarden
