// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/driver/availability.hpp"

#include "support/http_server.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::driver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::HttpServer;

constexpr std::string_view kIndex =
    "Package: nvidia-open\nArchitecture: all\nVersion: 580.95.05-0ubuntu1\nDescription: x\n\n"
    "Package: nvidia-open\nVersion: 580.126.09-0ubuntu1\n\n"
    "Package: nvidia-driver-pinning-580\nVersion: 580-1ubuntu1\n\n"
    "Package: cuda-drivers\nVersion: 1:535.288.01-1\n";
constexpr std::string_view kListing =
    "<a href='nvidia-open-580.95.05-1.el9.noarch.rpm'>nvidia-open-580.95.05-1.el9.noarch.rpm</a>\n"
    "<a href=\"nvidia-open-580.126.09-1.el9.noarch.rpm\">...</a> <a href='repodata/'>repodata/</a>";

DriverFacts machine(const std::string& distribution, const std::string& version) {
  DriverFacts facts;
  facts.snapshot.environment.emplace();
  facts.snapshot.environment->host.distribution = distribution;
  facts.snapshot.environment->host.distribution_version = version;
  facts.snapshot.environment->host.machine = "x86_64";
  assume_facts(facts);
  return facts;
}

const Recommendation kTarget{.branch = 580, .packaging = Packaging::cuda_repository};

std::string folder(const HttpServer& server) { return fmt::format("http://127.0.0.1:{}/repos", server.port()); }

TEST(Availability, AnAptIndexAnRpmListingAndMadisonAreRead) {
  const OfferedPackage newest{"nvidia-open", "580.126.09"};
  const OfferedPackage older{"nvidia-open", "580.95.05"};
  EXPECT_THAT(read_apt_index(kIndex), ElementsAre(older, newest, OfferedPackage{"nvidia-driver-pinning-580", "580"},
                                                  OfferedPackage{"cuda-drivers", "535.288.01"}));
  EXPECT_THAT(read_rpm_listing(kListing), ElementsAre(older, newest));
  EXPECT_THAT(read_madison(" nvidia-open | 580.126.09-1 | https://x  Packages\n"), ElementsAre(newest));
  EXPECT_TRUE(read_apt_index("<html>no</html>").empty());
  EXPECT_TRUE(read_rpm_listing(".rpm -.rpm a-.rpm -a.rpm").empty());
  EXPECT_TRUE(read_madison("N: Unable to locate package x\n").empty());
}

TEST(Availability, AVersionThatTheRepositoryHasIsConfirmed) {
  HttpServer server([](const HttpServer::Request& request) {
    return request.path() == "/repos/ubuntu2204/x86_64/Packages" ? http_answer(200, kIndex) : http_answer(404, "");
  });
  const auto facts = machine("ubuntu", "22.04");
  const AskRepository how{.base = folder(server)};
  const auto check = check_repository(facts, {.version = "580.95.05"}, kTarget, how);
  EXPECT_EQ(check.state, PreCheck::State::ok) << check.found;
  EXPECT_THAT(check.found, HasSubstr("ubuntu2204/x86_64 has nvidia-open 580.95.05"));
  const auto branch = check_repository(facts, {}, kTarget, how);
  EXPECT_EQ(branch.state, PreCheck::State::ok);
  EXPECT_THAT(branch.found, HasSubstr("nvidia-open 580.126.09")) << "the newest of the branch";
}

TEST(Availability, AVersionThatIsNotThereFailsWithTheNewestThatIs) {
  HttpServer server([](const HttpServer::Request&) { return http_answer(200, kListing); });
  const auto check =
      check_repository(machine("rhel", "9.4"), {.version = "580.999.99"}, kTarget, {.base = folder(server)});
  EXPECT_EQ(check.state, PreCheck::State::failed);
  EXPECT_THAT(check.found, HasSubstr("rhel9/x86_64 does not have nvidia-open (the newest is 580.126.09) in version"));
  EXPECT_THAT(check.remedy, HasSubstr("--driver-version"));
}

TEST(Availability, ARepositoryThatIsNotThereIsSaidToBeMissing) {
  HttpServer server([](const HttpServer::Request&) { return http_answer(404, ""); });
  const auto check = check_repository(machine("ubuntu", "25.10"), {}, kTarget, {.base = folder(server)});
  EXPECT_EQ(check.state, PreCheck::State::failed);
  EXPECT_THAT(check.found, HasSubstr("there is no repository ubuntu2510/x86_64"));
}

TEST(Availability, AMirrorWithPackedIndicesAloneIsNotMissing) {
  HttpServer server([](const HttpServer::Request& request) {
    return request.path().ends_with("/Packages.gz") ? http_answer(200, "packed") : http_answer(404, "");
  });
  const auto check = check_repository(machine("ubuntu", "22.04"), {}, kTarget, {.base = folder(server)});
  EXPECT_EQ(check.state, PreCheck::State::unknown);
  EXPECT_THAT(check.found, HasSubstr("in compressed form alone"));
}

TEST(Availability, WhatCouldNotBeAskedIsNotChecked) {
  HttpServer broken([](const HttpServer::Request&) { return http_answer(503, ""); });
  HttpServer page([](const HttpServer::Request&) { return http_answer(200, "<html>a captive portal</html>"); });
  const auto facts = machine("ubuntu", "22.04");
  const auto state = [&](const AskRepository& how) {
    const auto check = check_repository(facts, {}, kTarget, how);
    EXPECT_TRUE(check.found.starts_with("not checked: ")) << check.found;
    return check.state;
  };
  EXPECT_EQ(state({.offline = true}), PreCheck::State::unknown);
  EXPECT_EQ(state({.base = folder(broken)}), PreCheck::State::unknown);
  EXPECT_EQ(state({.base = folder(page)}), PreCheck::State::unknown);
  EXPECT_EQ(state({.base = "http://127.0.0.1:1/repos"}), PreCheck::State::unknown);
  const auto archive = check_repository(facts, {}, {.branch = 580, .packaging = Packaging::distribution}, {});
  EXPECT_THAT(archive.found, HasSubstr("apt-cache madison nvidia-driver-580-open"));
}

}  // namespace
}  // namespace gpuwarden::driver
