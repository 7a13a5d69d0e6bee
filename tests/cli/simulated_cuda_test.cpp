// SPDX-License-Identifier: Apache-2.0
// A job on a simulated fleet finds the simulated CUDA driver, without knowing of it.
#include "cli/program.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::HasSubstr;

class SimulatedCuda : public Program {
 protected:
  SimulatedCuda() {
    environment_["GPUWARDEN_SIM_CUDA_LATENCY"] = "off";
    environment_.erase("LD_LIBRARY_PATH");
    fleet_ = file("fleet.yaml", "cuda_context_memory: 0MiB\ngpus: [{model: Tesla T4, count: 3}]\n");
  }
  std::string fleet_;
};

TEST_F(SimulatedCuda, RanksSeeTheGpusTheyWereGiven) {
  const auto done = run({"run", "--simulate", fleet_, "-n", "2", "--", GPUWARDEN_CUDA_VISITOR});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output + done.standard_error, HasSubstr("devices 2 free 14064 MiB"));
}

TEST_F(SimulatedCuda, ProgramsOfSimExecSeeAll) {
  const auto done = run({"sim", "exec", "--fleet", fleet_, "--", GPUWARDEN_CUDA_VISITOR});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_EQ(done.standard_output, "devices 3 free 14064 MiB\n");
}

TEST_F(SimulatedCuda, TheSearchPathIsKeptBehindIt) {
  environment_["LD_LIBRARY_PATH"] = "/opt/own";
  const auto done = run({"sim", "exec", "--fleet", fleet_, "--", "sh", "-c", "echo $LD_LIBRARY_PATH"});
  EXPECT_THAT(done.standard_output, ::testing::EndsWith("/550:/opt/own\n"));
}

TEST_F(SimulatedCuda, CanBeLeftOut) {
  environment_["LD_LIBRARY_PATH"] = "/opt/own";
  environment_["GPUWARDEN_SIM_LIBRARIES"] = "off";
  const auto done = run({"run", "--simulate", fleet_, "-n", "1", "--", "sh", "-c", "echo path=$LD_LIBRARY_PATH"});
  EXPECT_THAT(done.standard_output + done.standard_error, HasSubstr("path=/opt/own\n"));
}

}  // namespace
}  // namespace gpuwarden::testing
