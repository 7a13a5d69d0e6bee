// SPDX-License-Identifier: Apache-2.0
// gpuwarden list: widths, pipes, comma-separated values.
#include <algorithm>

#include "cli/program.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kListedFleet =
    "clock: {frozen: true}\n"
    "gpus:\n"
    "  - model: NVIDIA H100 80GB HBM3\n"
    "    processes: [{pid: 4194001, user: ada, command: python train.py --model llama-3.1-405b --data "
    "/a/very/long/path/that/goes/on/and/on --seed 4711, memory: 60GiB}]\n"
    "  - {model: NVIDIA H100 80GB HBM3, faults: [lost]}\n"
    "  - {model: NVIDIA A100-SXM4-40GB, mig: {enabled: true, instances: [3g.20gb]}}\n";

class List : public testing::Program {
 protected:
  std::string shown(const std::string& columns, std::vector<std::string> words) {
    environment_["COLUMNS"] = columns;
    words.insert(words.begin(), {"list", "--simulate", file("fleet.yaml", kListedFleet)});
    return run(std::move(words)).standard_output;
  }
};

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  for (const auto line : split(text, '\n')) most = std::max(most, line.size());
  return most;
}

TEST_F(List, KeepsToTheWidthOfTheTerminalDownTo20Columns) {
  for (const char* columns : {"20", "30", "40", "50", "60", "70", "80", "100", "160"}) {
    const auto text = shown(columns, {});
    EXPECT_LE(widest(text), static_cast<std::size_t>(std::stoi(columns))) << text;
    EXPECT_THAT(text, HasSubstr("lost")) << columns;
    EXPECT_THAT(text, HasSubstr("H100")) << columns;
    EXPECT_LE(widest(shown(columns, {"-p"})), static_cast<std::size_t>(std::stoi(columns)));
  }
}

TEST_F(List, ShowsCapabilityAndShareOfMemoryWhereThereIsRoom) {
  EXPECT_THAT(shown("120", {}), HasSubstr("   cc util"));
  EXPECT_THAT(shown("120", {}), HasSubstr(" 9.0 "));
  EXPECT_THAT(shown("120", {}), HasSubstr(" 75%"));
  EXPECT_THAT(shown("80", {}), Not(HasSubstr(" cc ")));
}

TEST_F(List, ProcessesAreNotCutInAPipe) {
  environment_.erase("COLUMNS");
  const auto done = run({"list", "-p", "--simulate", file("fleet.yaml", kListedFleet)});
  EXPECT_THAT(done.standard_output, HasSubstr("/a/very/long/path/that/goes/on/and/on --seed 4711\n"));
}

TEST_F(List, NamesStandWholeInAPipe) {
  environment_.erase("COLUMNS");
  const std::string captured =
      "GPU 0: NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition (UUID: GPU-1)\n"
      "GPU 1: NVIDIA GeForce GTX 1080 Ti (UUID: GPU-2)\n";
  const auto done = run({"list", "--from", file("smi.txt", captured)});
  EXPECT_THAT(done.standard_output, HasSubstr("RTX PRO 6000 Blackwell Max-Q Workstation Edition"));
  EXPECT_THAT(done.standard_output, HasSubstr("GeForce GTX 1080 Ti "));
  EXPECT_THAT(done.standard_output, Not(HasSubstr("~")));
  environment_["COLUMNS"] = "80";
  EXPECT_THAT(run({"list", "--from", file("smi.txt", captured)}).standard_output, HasSubstr("~"));
}

TEST_F(List, PrintsChosenFieldsAsNvidiaSmiDoes) {
  const auto done = run({"list", "--simulate", "t4x1", "--format", "csv", "--fields", "index,name,memory.total"});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_EQ(done.standard_output, "index, name, memory.total [MiB]\n0, Tesla T4, 15360 MiB\n");
  EXPECT_EQ(run({"list", "--simulate", "t4x1", "--format=csv,noheader,nounits", "--fields", "index", "memory.total"})
                .standard_output,
            "0, 15360\n");
  EXPECT_THAT(run({"list", "--simulate", "t4x1", "--format", "csv"}).standard_output, HasSubstr("index, name, uuid"));
}

TEST_F(List, ItsValuesCanBeReadBackAsACapture) {
  const auto csv = run({"list", "--simulate", "h100x8", "--format", "csv", "--fields",
                        "index,name,uuid,pci.bus_id,utilization.gpu,memory.used,memory.total,power.draw,pstate"});
  const auto capture = file("capture.csv", csv.standard_output);
  const auto read = json({"list", "--from", capture});
  ASSERT_EQ(read["gpus"].size(), 8U) << csv.standard_output;
  const auto live = json({"list", "--simulate", "h100x8"});
  EXPECT_EQ(read["gpus"][3]["uuid"], live["gpus"][3]["uuid"]);
  EXPECT_EQ(read["gpus"][3]["memory"]["total_bytes"], live["gpus"][3]["memory"]["total_bytes"]);
}

TEST_F(List, WrongFieldsAndFormatsAreRefused) {
  expect_error({"list", "--simulate", "t4x1", "--format", "csv", "--fields", "memory.usd"}, 2,
               "unknown field 'memory.usd'\nhint: did you mean memory.used");
  expect_error({"list", "--simulate", "t4x1", "--format", "xml"}, 2, "unknown format 'xml'");
  expect_error({"list", "--simulate", "t4x1", "--fields", "index"}, 2, "--fields requires --format csv");
  expect_error({"list", "--simulate", "t4x1", "--format", "csv", "--json"}, 2, "cannot be used with");
}

TEST_F(List, ItsFieldsAreListedWithAndWithoutAFormat) {
  const auto alone = run({"list", "--fields", "help"});
  EXPECT_EQ(alone.exit_code, 0) << alone.standard_error;
  EXPECT_THAT(alone.standard_output, HasSubstr("\npower.draw\n"));
  EXPECT_EQ(run({"list", "--format", "csv", "--fields", "help"}).standard_output, alone.standard_output);
}

TEST_F(List, AGpuAtWorkIsNeverFreeThoughNobodyIsSeenOnIt) {
  const auto sick = run({"list", "--simulate", "h100x8-sick", "-i", "6"});
  EXPECT_THAT(sick.standard_output, HasSubstr("W in use\n"));
  EXPECT_THAT(sick.standard_output, Not(HasSubstr("free")));
  const auto csv = run(
      {"list", "--simulate", "h100x8-sick", "-i", "6", "--format", "csv", "--fields", "index", "memory.used", "state"});
  EXPECT_THAT(csv.standard_output, HasSubstr(", in_use\n"));
  const auto read = run({"list", "--from", file("capture.csv", csv.standard_output)});
  EXPECT_THAT(read.standard_output, HasSubstr(" in use\n")) << csv.standard_output;
}

TEST_F(List, MigWithoutAnInstanceIsShown) {
  const auto fleet = file("mig.yaml", "gpus: [{model: NVIDIA A100-SXM4-40GB, mig: {enabled: true}}]\n");
  EXPECT_THAT(run({"list", "--simulate", fleet}).standard_output, HasSubstr("MIG, no instance\n"));
}

TEST_F(List, EndsNoLineWithBlanks) {
  for (const char* columns : {"40", "80", "120"}) EXPECT_THAT(shown(columns, {}), Not(HasSubstr(" \n"))) << columns;
}

TEST_F(List, SaysThatThereAreNoProcesses) {
  const auto none = run({"list", "-p", "--simulate", "t4x1"});
  EXPECT_THAT(none.standard_output, HasSubstr("\nno processes\n"));
  EXPECT_THAT(none.standard_output, Not(HasSubstr("pid typ")));
}

}  // namespace
}  // namespace gpuwarden
