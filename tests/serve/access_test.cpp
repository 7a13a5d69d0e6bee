// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/access.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "gpuwarden/serve/local_actions.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::serve {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;

Access loopback() {
  return {.address = {"127.0.0.1", kDefaultPort, true, false}, .host_names = {"node1"}, .owner = 1000};
}
Access public_address() {
  return {.token = "0123456789abcdef",
          .token_to_read = true,
          .address = {"0.0.0.0", 1, false, true},
          .host_names = {"node1"}};
}

TEST(ServeAddress, HasAHostAndAPort) {
  EXPECT_EQ(to_string(*parse_address("127.0.0.1:9999")), "127.0.0.1:9999");
  EXPECT_EQ(to_string(*parse_address("[::1]:0")), "[::1]:0");
  EXPECT_EQ(to_string(*parse_address("localhost")), "127.0.0.1:10478");
  EXPECT_TRUE(parse_address("[::1]")->loopback);
  EXPECT_TRUE(parse_address("127.1.2.3:1")->loopback);
  EXPECT_FALSE(parse_address("0.0.0.0:1")->loopback);
  EXPECT_TRUE(parse_address("[::]:1")->any);
  for (const char* bad :
       {"", ":80", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:-1", "::1:80", "[::1", "[::1]80", "example.org:80"})
    EXPECT_FALSE(parse_address(bad).has_value()) << bad;
}

TEST(ServeAccess, AnotherAddressThanLoopbackNeedsAToken) {
  EXPECT_TRUE(check(loopback()).has_value());
  Access open = public_address();
  open.token.clear();
  EXPECT_THAT(check(open), FailsWith(ErrorCode::invalid_argument, HasSubstr("needs --token-file")));
  EXPECT_TRUE(check(public_address()).has_value());
  Access acting = loopback();
  acting.allow_actions = true;
  EXPECT_THAT(check(acting), FailsWith(ErrorCode::invalid_argument, HasSubstr("--allow-actions needs --token-file")));
}

TEST(ServeToken, IsReadFromAFileOfItsOwnersAlone) {
  const testing::TempDir dir;
  const auto file = dir / "token";
  testing::put(file, "  0123456789abcdef  \nmore\n");
  ::chmod(file.c_str(), 0600);
  EXPECT_THAT(read_token(file), testing::IsOkAnd("0123456789abcdef"));
  ::chmod(file.c_str(), 0640);
  EXPECT_THAT(read_token(file), FailsWith(ErrorCode::invalid_argument, HasSubstr("can be read by others")));
  ::chmod(file.c_str(), 0600);
  testing::put(file, "short\n");
  ::chmod(file.c_str(), 0600);
  EXPECT_THAT(read_token(file), FailsWith(ErrorCode::invalid_argument, HasSubstr("16 to 1024")));
  testing::put(file, "0123456789 abcdef\n");
  ::chmod(file.c_str(), 0600);
  EXPECT_THAT(read_token(file), FailsWith(ErrorCode::invalid_argument, HasSubstr("without blanks")));
  EXPECT_THAT(read_token(dir / "none"), FailsWith(ErrorCode::not_found, HasSubstr("none")));
  EXPECT_FALSE(read_token(dir.path()).has_value());
}

TEST(ServeSecret, IsComparedWhole) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("abc", "ab"));
  EXPECT_FALSE(same_secret("", "a"));
}

TEST(ServeSessions, EndAfterTwelveHoursOrWhenThereAreTooMany) {
  testing::FakeClock clock;
  Sessions sessions;
  const std::string first = sessions.open(clock.now());
  EXPECT_EQ(first.size(), 48U);
  EXPECT_TRUE(sessions.holds(first, clock.now()));
  EXPECT_FALSE(sessions.holds("", clock.now()));
  clock.advance(std::chrono::minutes(1));
  std::string last;
  for (std::size_t i = 0; i < Sessions::kMost; ++i) last = sessions.open(clock.now());
  EXPECT_FALSE(sessions.holds(first, clock.now()));
  EXPECT_TRUE(sessions.holds(last, clock.now()));
  clock.advance(Sessions::kLife);
  EXPECT_FALSE(sessions.holds(last, clock.now()));
}

TEST(ServeCaller, SeesCommandsWithTheTokenOrAsTheServersUserOnLoopback) {
  Access access = loopback();
  access.token = "0123456789abcdef";
  const Sessions sessions;
  Request request;
  const auto sees = [&] { return caller_of(request, access, sessions, {}).sees_commands; };
  EXPECT_FALSE(sees());
  request.peer = {true, "", 1001};
  EXPECT_FALSE(sees());
  request.peer = {true, "", 1000};
  EXPECT_TRUE(sees());
  request.peer = {true, "", 0};
  EXPECT_TRUE(sees());
  request.peer = {false, "", 1000};
  EXPECT_FALSE(sees());
  request.headers = {{"authorization", "bearer 0123456789abcdef"}};
  EXPECT_TRUE(sees());
  request.headers = {{"authorization", "Bearer 0123456789abcdeF"}};
  EXPECT_FALSE(sees());
}

TEST(ServeHost, MustBeOneOfTheServersOwn) {
  const Access near = loopback();
  for (const char* own : {"127.0.0.1", "127.0.0.1:10478", "localhost:10478", "LOCALHOST", "[::1]:1", "node1:10478"})
    EXPECT_TRUE(host_is_own(own, near)) << own;
  for (const char* foreign : {"", "evil.example", "evil.example:10478", "10.0.0.1:10478", "localhost.evil.example",
                              "[::1", "a:b:c", "localhost:evil"})
    EXPECT_FALSE(host_is_own(foreign, near)) << foreign;
  const Access far = public_address();
  EXPECT_TRUE(host_is_own("10.0.0.1:1", far));
  EXPECT_FALSE(host_is_own("evil.example", far));
}

TEST(ServeOrigin, OfAnotherSiteIsNotOwn) {
  Request request;
  request.headers = {{"host", "127.0.0.1:1"}};
  EXPECT_TRUE(origin_is_own(request));
  request.headers.emplace_back("origin", "http://127.0.0.1:1");
  EXPECT_TRUE(origin_is_own(request));
  request.headers.back().second = "http://evil.example";
  EXPECT_FALSE(origin_is_own(request));
  request.headers.back().second = "null";
  EXPECT_FALSE(origin_is_own(request));
}

TEST(Credentials, OfSystemdMayBeReadByTheGroupThatItsAccessListShows) {
  const testing::TempDir dir;
  testing::put(dir / "token", "0123456789abcdef0123\n");
  const auto mode = [&](unsigned bits) { ASSERT_EQ(::chmod((dir / "token").c_str(), bits), 0); };
  mode(0440);
  EXPECT_FALSE(read_token(dir / "token").has_value());
  EXPECT_EQ(read_credential(dir.path(), "token"), "0123456789abcdef0123");
  EXPECT_EQ(read_token(dir / "token", dir.path()), "0123456789abcdef0123") << "--token-file of such a file";
  EXPECT_FALSE(read_token(dir / "token", "/elsewhere").has_value());
  mode(0444);
  EXPECT_FALSE(read_credential(dir.path(), "token").has_value()) << "open to all";
  mode(0460);
  EXPECT_FALSE(read_credential(dir.path(), "token").has_value()) << "others may write";
  EXPECT_EQ(read_credential(dir.path(), "peers-token"), "") << "systemd gave none";
  EXPECT_EQ(read_credential("", "token"), "");
}

TEST(Tokens, ComeFromNamedFilesElseFromSystemd) {
  const testing::TempDir dir;
  const Environment systemd{{"CREDENTIALS_DIRECTORY", dir.path().string()}};
  const auto put = [&](const char* name, std::string_view text) {
    testing::put(dir / name, text);
    ASSERT_EQ(::chmod((dir / name).c_str(), 0600), 0);
  };
  EXPECT_EQ(read_tokens({}, {}, {})->own, "");
  put("token", "0123456789abcdef-own\n");
  put("peers-token", "0123456789abcdef-peers\n");
  put("named", "0123456789abcdef-named\n");
  EXPECT_EQ(read_tokens({}, {}, systemd)->own, "0123456789abcdef-own");
  EXPECT_EQ(read_tokens({}, {}, systemd)->peers, "0123456789abcdef-peers");
  const auto named = read_tokens((dir / "named").string(), (dir / "named").string(), systemd);
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(named->own, "0123456789abcdef-named");
  EXPECT_EQ(named->peers, "0123456789abcdef-named");
  EXPECT_FALSE(read_tokens("", {}, systemd).has_value()) << "a name that is empty is not taken for none";
  EXPECT_THAT(read_tokens({}, "/no/such/file", {}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("cannot read /no/such/file")));
}

TEST(KeptRights, AreNamed) {
  EXPECT_FALSE(kept_rights_from({})->any());
  const std::vector<std::string> names{"power", "disable"};
  const auto rights = kept_rights_from(names);
  ASSERT_TRUE(rights.has_value());
  EXPECT_TRUE(rights->power && rights->disable);
  EXPECT_FALSE(rights->signals);
  const std::vector<std::string> wrong{"all"};
  EXPECT_THAT(kept_rights_from(wrong), FailsWith(ErrorCode::invalid_argument, HasSubstr("unknown right 'all'")));
}

}  // namespace
}  // namespace gpuwarden::serve
