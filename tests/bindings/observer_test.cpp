// SPDX-License-Identifier: Apache-2.0
// What the libraries tell others of their pools, as the environment asks: statuses and snapshots.
#include <fmt/format.h>

#include <map>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/pools/published_pool.hpp"
#include "sim_cuda/program.hpp"
#include "support/patience.hpp"

namespace gpuwarden {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Json = nlohmann::json;

class ObserverTest : public cuda::Programs {
 protected:
  ObserverTest() {
    environment_ = current_environment();
    environment_["LD_LIBRARY_PATH"] = cuda::library_of(580).parent_path();
    for (const char* name : {"GPUWARDEN_MEMORY_STATUS", "GPUWARDEN_MEMORY_SNAPSHOT"}) environment_.erase(name);
  }
  /// Runs the program that holds 40 MiB in a pool of C while the shell runs `script`.
  Completed hold(const std::string& script, const std::string& how = "destroy") const {
    auto done = testing::run_patiently({.argv = {GPUWARDEN_POOL_HOLDER, script, how}, .environment = environment_});
    EXPECT_TRUE(done) << done.error().message;
    return done.value_or(Completed{});
  }
  std::filesystem::path pools() const { return folder() / "pools"; }

  Environment environment_;
};

TEST_F(ObserverTest, APoolOfCIsPublishedWhileItLives) {
  environment_["GPUWARDEN_MEMORY_STATUS"] = "5ms";
  // Until the thread has seen all that was done after the beginning. A file that is being written has a dot in its
  // name.
  const auto done =
      hold(fmt::format("cd {}; file=$(ls | grep -v '[.]'); "
                       "until grep -q 'allocations 2' $file && grep -q 'live_bytes 41943040' $file; "
                       "do sleep 0.01; done; cat $file",
                       pools().string()));
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  const auto pool = pools::pool_of_text(done.standard_output);
  ASSERT_TRUE(pool) << done.standard_output;
  EXPECT_EQ(pool->live, 40_MiB);
  EXPECT_EQ(pool->limit, 1_GiB);
  EXPECT_GE(pool->reserved, 140_MiB);
  EXPECT_THAT(list_directory(pools()), IsEmpty());
}

TEST_F(ObserverTest, OnUnlessItIsOff) {
  const std::string count = fmt::format("ls {} 2>/dev/null | grep -vc '[.]'", pools().string());
  for (const auto& [value, files] :
       std::map<std::string, std::string>{{"on", "1"}, {"off", "0"}, {"0", "0"}, {"", "1"}}) {
    environment_["GPUWARDEN_MEMORY_STATUS"] = value;
    EXPECT_EQ(trim(hold(count).standard_output), files) << value;
  }
  environment_["GPUWARDEN_MEMORY_STATUS"] = "sometimes";
  const auto refused = hold("true");
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.standard_error, HasSubstr("GPUWARDEN_MEMORY_STATUS: 'sometimes' is neither on, off"));
}

TEST_F(ObserverTest, WhatIsNotDestroyedIsFinishedAtTheEndOfTheProgram) {
  environment_["GPUWARDEN_MEMORY_SNAPSHOT"] = (folder() / "end.json").string();
  EXPECT_EQ(hold("exit 6", "leave").exit_code, 6);
  EXPECT_THAT(list_directory(pools()), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(folder() / "end.json"));
}

TEST_F(ObserverTest, AFolderThatCannotBeUsedIsSaidOnlyWhereItWasAskedFor) {
  environment_["GPUWARDEN_MEMORY_DIR"] = (folder() / "no" / "such").string();
  const auto asked = hold("true");
  EXPECT_EQ(asked.exit_code, 0) << "nothing else breaks";
  EXPECT_THAT(asked.standard_error, StartsWith("gpuwarden: GPUWARDEN_MEMORY_STATUS: cannot use "));
  EXPECT_THAT(split(trim(asked.standard_error), '\n'), SizeIs(1));
  environment_["GPUWARDEN_MEMORY_STATUS"] = "off";
  const auto quiet = hold("true");
  EXPECT_EQ(quiet.exit_code, 0);
  EXPECT_EQ(quiet.standard_error, "");
}

TEST_F(ObserverTest, ASnapshotOfTheEndHasPyTorchsShape) {
  const auto file = folder() / "end.json";
  environment_["GPUWARDEN_MEMORY_SNAPSHOT"] = file.string();
  ASSERT_EQ(hold("true").exit_code, 0);
  const auto snapshot = Json::parse(read_file(file).value_or(""), nullptr, false);
  ASSERT_TRUE(snapshot.is_object());
  std::uint64_t active = 0;
  for (const Json& segment : snapshot["segments"]) active += segment["allocated_size"].get<std::uint64_t>();
  EXPECT_EQ(active, 40U << 20U);
  EXPECT_EQ(snapshot["device_traces"], Json::parse("[[]]"));
  EXPECT_FALSE(std::filesystem::exists(folder() / "end.oom.json")) << "memory did not run out";
}

TEST_F(ObserverTest, WhereMemoryRunsOutASnapshotIsKept) {
  environment_["GPUWARDEN_MEMORY_SNAPSHOT"] = (folder() / "end.json").string();
  ASSERT_EQ(hold("true", "oom").exit_code, 0);
  const auto snapshot = Json::parse(read_file(folder() / "end.oom.json").value_or(""), nullptr, false);
  ASSERT_TRUE(snapshot.is_object());
  ASSERT_EQ(snapshot["device_traces"][0].size(), 1U);
  const Json& event = snapshot["device_traces"][0][0];
  EXPECT_EQ(event["action"], "oom");
  EXPECT_EQ(event["size"], std::uint64_t{2} << 30U);
  EXPECT_GT(event["device_free"], 0U);
  EXPECT_TRUE(std::filesystem::exists(folder() / "end.json"));
}

TEST_F(ObserverTest, WithoutJsonInItsNameASnapshotIsAPickle) {
  environment_["GPUWARDEN_MEMORY_SNAPSHOT"] = (folder() / "end.pickle").string();
  ASSERT_EQ(hold("true").exit_code, 0);
  EXPECT_THAT(read_file(folder() / "end.pickle").value_or(""), StartsWith("\x80\x04"));
}

TEST_F(ObserverTest, ASnapshotThatCannotBeWrittenIsSaidInOneLine) {
  std::filesystem::create_directory(folder() / "folder");
  for (const auto& file : {folder() / "no" / "end.pickle", folder() / "folder"}) {
    environment_["GPUWARDEN_MEMORY_SNAPSHOT"] = file.string();
    const auto done = hold("true", "oom");
    EXPECT_EQ(done.exit_code, 0) << "nothing else breaks";
    EXPECT_THAT(done.standard_error, StartsWith("gpuwarden: GPUWARDEN_MEMORY_SNAPSHOT: cannot write " + file.string()));
    EXPECT_THAT(split(trim(done.standard_error), '\n'), SizeIs(1)) << done.standard_error;
  }
}

}  // namespace
}  // namespace gpuwarden
