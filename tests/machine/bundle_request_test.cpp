// SPDX-License-Identifier: Apache-2.0
// What a bundle is asked to hold, in words.
#include "gpuwarden/machine/make_bundle.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::machine {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;

Result<BundleRequest> request_of(const std::map<std::string, std::vector<std::string>>& words) {
  NamedValues values;
  for (const auto& [name, list] : words) values.set(name, list);
  return read_bundle_request(values, knowledge::Knowledge::built_in());
}

TEST(BundleRequests, HoldTheEndsOfTheLogsThatAreNamed) {
  const testing::TempDir dir;
  testing::put(dir / "run.log", std::string(std::size_t{2} << 20U, 'x') + "\nthe last line\n");
  const std::string log = (dir / "run.log").string();
  const auto request = request_of({{"log", {log}}, {"log-size", {"1MiB"}}, {"seconds", {"0"}}, {"for", {"vllm"}}});
  ASSERT_TRUE(request) << request.error().message;
  ASSERT_EQ(request->logs.files.size(), 1U);
  EXPECT_EQ(request->logs.files[0].text, "the last line\n");
  EXPECT_EQ(request->sample_for, std::chrono::seconds(0));
  EXPECT_EQ(request->purpose.text, "vllm");
  EXPECT_FALSE(request->anonymize);
  EXPECT_TRUE(request->output.empty());
  EXPECT_EQ(request_of({{"log", {log}}})->logs.files[0].text.size(), (std::size_t{2} << 20U) + 15);
}

TEST(BundleRequests, HaveLimitsAndDestroyNothing) {
  const testing::TempDir dir;
  testing::put(dir / "run.log", "hello\n");
  const std::string log = (dir / "run.log").string();
  EXPECT_THAT(request_of({{"log-size", {"65MiB"}}}), FailsWith(ErrorCode::invalid_argument, HasSubstr("64 MiB")));
  EXPECT_THAT(request_of({{"log-size", {"0B"}}}), FailsWith(ErrorCode::invalid_argument, HasSubstr("log-size")));
  EXPECT_THAT(request_of({{"seconds", {"601"}}}), FailsWith(ErrorCode::invalid_argument, HasSubstr("seconds")));
  EXPECT_THAT(request_of({{"log", std::vector<std::string>(33, log)}}),
              FailsWith(ErrorCode::invalid_argument, "log: at most 32 logs"));
  EXPECT_THAT(request_of({{"log", {log}}, {"output", {log}}}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("one of the logs")));
}

}  // namespace
}  // namespace gpuwarden::machine
