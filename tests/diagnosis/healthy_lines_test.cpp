// SPDX-License-Identifier: Apache-2.0
// Lines that sound like failures and are none (healthy_lines.txt), or that only mention one (mentions.txt).
#include <gtest/gtest.h>

#include <fstream>

#include "diagnosis/line.hpp"
#include "diagnosis/rules.hpp"
#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "support/source_folder.hpp"

namespace gpuwarden::diagnosis {
namespace {

/// The rules that speak of a line, for whoever has to mend them.
std::string speakers(const std::string& line) {
  const Rules& rules = Rules::all();
  const Line normal = normalise(line);
  std::string names;
  for (const int index : rules.fitting(normal.text)) {
    if (!rules.rule(index).cause.empty() && !rules.rejects(index, normal.text, {}))
      names += " " + std::string(rules.rule(index).id);
  }
  return names;
}

TEST(HealthyLines, NameNoCause) {
  std::ifstream file(testing::source_folder() / "tests/diagnosis/healthy_lines.txt");
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    ++lines;
    for (const Cause& cause : diagnose_text(line + "\n", "run.log").causes)
      ADD_FAILURE() << cause.id << " is named by: " << line << "  [" << speakers(line) << " ]";
  }
  EXPECT_GE(lines, 200U);
}

TEST(Mentions, NameNoCause) {
  std::ifstream file(testing::source_folder() / "tests/diagnosis/mentions.txt");
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.starts_with('%')) continue;
    ++lines;
    for (const Cause& cause : diagnose_text(line + "\n", "run.log").causes)
      ADD_FAILURE() << cause.id << " is named by: " << line << "  [" << speakers(line) << " ]";
  }
  EXPECT_GE(lines, 80U);
}

TEST(Mentions, AreNotWhatSomebodyReports) {
  for (const std::string text : {
           "When I start it I get CUDA out of memory\n",
           "When deploying with two replicas, encountering \"RuntimeError: No CUDA GPUs are available\"\n",
           "When the validation starts, CUDA out of memory\n",
           "Is this a known issue? RuntimeError: CUDA out of memory.\n",
           "RuntimeError: CUDA out of memory. Did you forget to free something? If you get this often, lower the "
           "batch\n",
           "  File \"train.py\", line 7, in main\n    raise RuntimeError(\"No CUDA GPUs are available\")\n",
           "failed to stat CDI host device \"/dev/nvidia-uvm\": no such file or directory\n",
           "RuntimeError('CUDA out of memory')\n",
           "Could not get device count: no CUDA-capable device is detected\n",
           "could not get devices (no CUDA-capable device is detected), which may end the job\n",
           "The loader can never return: libcudart.so.12: cannot open shared object file: No such file or directory\n",
           "ImportError: libcudart.so.12: cannot open shared object file, see installation in the documentation\n",
           "libcudart.so.12: cannot open shared object file, as is described in the manual\n",
           "train: libcudart.so.12: cannot open shared object file (explained in the docs)\n",
           "cudaErrorNoDevice: This indicates that no CUDA-capable devices were detected by the installed driver.\n",
           "CUDA_ERROR_NO_DEVICE (100): this indicates that no CUDA-capable device is detected\n",
           "RuntimeError: CUDA out of memory; this often goes away with a smaller batch\n",
           "torch.OutOfMemoryError: CUDA out of memory, no more \"pinned\" buffers\n",
           "CUDA error: out of memory, there are no more 'pinned' buffers\n",
       }) {
    EXPECT_FALSE(diagnose_text(text, "run.log").causes.empty()) << text;
  }
}

TEST(Mentions, AreNotWhatAProgramPrintsWithALevelATimeOrARank) {
  for (const std::string text : {
           "[rank3] last_error = \"CUDA out of memory\"\n",
           "[rank3]: last_error = \"CUDA out of memory\"\n",
           "2026-11-20 10:00:00 ERROR reason = 'GPU has fallen off the bus'\n",
           "ERROR: error = 'CUDA out of memory'\n",
           "F1120 10:00:00.000000 77 pool.cc:31] CHECK(count > 0, \"no CUDA-capable device is detected\")\n",
           "2026-11-20T10:00:00Z raise RuntimeError(\"No CUDA GPUs are available\")\n",
           "2026-11-20 10:00:00,123 - trainer - ERROR - assert ok, \"CUDA out of memory\"\n",
       }) {
    EXPECT_FALSE(diagnose_text(text, "run.log").causes.empty()) << text;
  }
}

}  // namespace
}  // namespace gpuwarden::diagnosis
