// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/bundle/bundle.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bundle/archive.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/sha256.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::bundle {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TempDir;

const BundleHead kHead{"1.2.3", std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'000)), false};

Contents contents() {
  return {{{"snapshot.json", "the facts", R"({"schema": 1, "gpus": [], "host": "node7"})", true},
           {"logs/train.log", "/home/jane/train.log", "HF_TOKEN=abc\n/home/jane/x\n"},
           {"logs/train.log", "another", "password: hunter2"}},
          {{"nvidia-smi", "it is not installed on node7"}}};
}

/// The bundle's archive with its entries changed.
template <class Change>
std::string tampered(const std::filesystem::path& path, const Change& change) {
  auto entries = *unpack(*read_file(path), "x");
  change(entries);
  return *pack(entries, kHead.created);
}

TEST(Bundle, ReplacesAnOlderBundleAndNothingElse) {
  const TempDir dir;
  const auto path = dir.path() / "b.tar.gz";
  ASSERT_TRUE(write_bundle(path, contents(), redact::Redactor(), kHead));
  EXPECT_TRUE(write_bundle(path, contents(), redact::Redactor(), kHead)) << "an older one";
  EXPECT_THAT(check_output(path, std::vector<std::string>{(dir.path() / "." / "b.tar.gz").string()}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("one of the logs")));
  const auto log = dir.path() / "train.log";
  const auto empty = dir.path() / "empty";
  ASSERT_TRUE(write_file_atomically(log, "step 1\n"));
  ASSERT_TRUE(write_file_atomically(empty, ""));
  EXPECT_THAT(write_bundle(log, contents(), redact::Redactor(), kHead),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("not a bundle")));
  EXPECT_EQ(*read_file(log), "step 1\n");
  EXPECT_THAT(check_output(dir.path()), FailsWith(ErrorCode::invalid_argument, HasSubstr("not a file")));
  EXPECT_TRUE(check_output(empty));
  EXPECT_TRUE(check_output(dir.path() / "new.tar.gz", std::vector<std::string>{log.string()}));
}

TEST(Bundle, ComesBackWithoutItsSecretsAndWithAManifestOfWhatWasRemoved) {
  const TempDir dir;
  const auto written = write_bundle(dir / "b.tar.gz", contents(), redact::Redactor(), kHead);
  ASSERT_TRUE(written) << written.error().message;
  const auto bundle = read_bundle(dir / "b.tar.gz");
  ASSERT_TRUE(bundle) << bundle.error().message;
  EXPECT_EQ(bundle->manifest, *written);
  EXPECT_EQ(bundle->manifest.created, "2023-11-14T22:13:20Z");
  ASSERT_NE(bundle->find("logs/train.log"), nullptr);
  EXPECT_EQ(*bundle->find("logs/train.log"), "HF_TOKEN=[removed]\n/home/jane/x\n");
  EXPECT_EQ(*bundle->find("logs/train-2.log"), "password: [removed]") << "two logs of one name";
  EXPECT_EQ(bundle->find("nothing"), nullptr);
  const ManifestFile& log = bundle->manifest.files[1];
  EXPECT_EQ(log.size, bundle->find(log.name)->size());
  EXPECT_EQ(log.sha256, sha256_hex(*bundle->find(log.name)));
  EXPECT_EQ(log.removed, (std::map<std::string, std::size_t>{{"value of a secret name", 1}}));
  EXPECT_EQ(bundle->manifest.removed().at("value of a secret name"), 2U);
  EXPECT_EQ(bundle->manifest.omitted, (std::vector<Omission>{{"nvidia-smi", "it is not installed on node7"}}));
}

TEST(Bundle, NamesGoFromTextsFileNamesAndTheManifestItself) {
  const TempDir dir;
  const redact::Identities names{.users = {"jane"}, .hosts = {"node7"}};
  Contents given = contents();
  given.files.push_back({"logs/jane.log", "jane's", "x"});
  ASSERT_TRUE(write_bundle(dir / "b.tar.gz", given, redact::Redactor({}, &names), kHead));
  const auto bundle = read_bundle(dir / "b.tar.gz");
  ASSERT_TRUE(bundle) << bundle.error().message;
  EXPECT_TRUE(bundle->manifest.anonymized);
  for (const BundleFile& file : bundle->files) {
    for (const char* name : {"jane", "node7"}) EXPECT_THAT(file.name + file.text, Not(HasSubstr(name))) << file.name;
  }
  EXPECT_NE(bundle->find("logs/user-1.log"), nullptr);
  EXPECT_THAT(*bundle->find("snapshot.json"), HasSubstr("host-1"));
}

TEST(Bundle, IsTheOwnersAloneAndOnlyWrittenWhole) {
  const TempDir dir;
  ASSERT_TRUE(write_bundle(dir / "b.tar.gz", contents(), redact::Redactor(), kHead));
  struct stat status{};
  ASSERT_EQ(::stat((dir / "b.tar.gz").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_FALSE(write_bundle(dir / "no/such/folder.tar.gz", contents(), redact::Redactor(), kHead));
  Contents broken = contents();
  broken.files[0].text = "{";
  EXPECT_FALSE(write_bundle(dir / "c.tar.gz", broken, redact::Redactor(), kHead));
  EXPECT_EQ(list_directory(dir.path()).size(), 1U) << "nothing half-written stays";
}

TEST(Bundle, WhatCouldNotBeReadBackIsNotWritten) {
  const TempDir dir;
  Contents many;
  for (int i = 0; i < 300; ++i) many.files.push_back({"logs/a.log", "one of many", "x"});
  EXPECT_THAT(write_bundle(dir / "b.tar.gz", many, redact::Redactor(), kHead),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("301 files")));
  EXPECT_TRUE(list_directory(dir.path()).empty());
}

TEST(Bundle, ChangedOnesAreRefusedByName) {
  const TempDir dir;
  ASSERT_TRUE(write_bundle(dir / "b.tar.gz", contents(), redact::Redactor(), kHead));
  const auto path = dir / "b.tar.gz";
  const auto changed = tampered(path, [](auto& entries) { entries[1].content += " "; });
  EXPECT_THAT(parse_bundle(changed, "b"), FailsWith(ErrorCode::corrupt, HasSubstr("snapshot.json is not what")));
  const auto missing = tampered(path, [](auto& entries) { entries.pop_back(); });
  EXPECT_THAT(parse_bundle(missing, "b"), FailsWith(ErrorCode::corrupt, HasSubstr("logs/train-2.log is missing")));
  const auto more =
      tampered(path, [](auto& entries) { entries.push_back({"gpuwarden-bundle-20231114T221320Z/x", "x"}); });
  EXPECT_THAT(parse_bundle(more, "b"), FailsWith(ErrorCode::corrupt, HasSubstr("x is not in its manifest")));
  const auto none = tampered(path, [](auto& entries) { entries.erase(entries.begin()); });
  EXPECT_THAT(parse_bundle(none, "b"), FailsWith(ErrorCode::corrupt, HasSubstr("it has no MANIFEST.json")));
  const auto flat = tampered(path, [](auto& entries) { entries[0].name = "MANIFEST.json"; });
  EXPECT_THAT(parse_bundle(flat, "b"), FailsWith(ErrorCode::corrupt, HasSubstr("share no folder")));
}

TEST(Bundle, DamageAnywhereIsFoundOrChangesNoText) {
  const TempDir dir;
  ASSERT_TRUE(write_bundle(dir / "b.tar.gz", contents(), redact::Redactor(), kHead));
  const std::string bytes = *read_file(dir / "b.tar.gz");
  const auto whole = parse_bundle(bytes, "b");
  const auto is_same = [&](const std::string& other) {
    const auto bundle = parse_bundle(other, "b");
    if (!bundle) return true;
    // The manifest's own prose has nobody who vouches for it; the texts have.
    return std::ranges::all_of(whole->manifest.files, [&](const ManifestFile& file) {
      const std::string* text = bundle->find(file.name);
      return text == nullptr || *text == *whole->find(file.name);
    });
  };
  std::size_t found = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    EXPECT_TRUE(is_same(damaged)) << "byte " << at;
    found += parse_bundle(damaged, "b") ? 0U : 1U;
    EXPECT_TRUE(is_same(bytes.substr(0, at))) << "cut at " << at;
  }
  EXPECT_GT(found, bytes.size() / 2);
}

TEST(Bundle, OtherFilesAreRefusedAsNoBundle) {
  EXPECT_THAT(parse_bundle("some text", "x.txt"),
              FailsWith(ErrorCode::corrupt, HasSubstr("x.txt is not a gpuwarden bundle")));
  EXPECT_THAT(parse_bundle(*pack({}, kHead.created), "x"), FailsWith(ErrorCode::corrupt, HasSubstr("no MANIFEST")));
  EXPECT_THAT(read_bundle("/no/such/file"), FailsWith(ErrorCode::not_found, HasSubstr("/no/such/file")));
}

TEST(Manifest, IsRefusedWithTheKeyThatIsWrong) {
  const nlohmann::json good =
      to_json(Manifest{"1", "now", false, false, {{"a", "b", 1, "c", {{"k", 2}}}}, {{"w", "y"}}});
  EXPECT_TRUE(manifest_from_json(good));
  for (const char* key :
       {"kind", "schema", "program_version", "created", "simulated", "anonymized", "files", "omitted"}) {
    nlohmann::json bad = good;
    bad.erase(key);
    EXPECT_THAT(manifest_from_json(bad), FailsWith(ErrorCode::corrupt, HasSubstr(key)));
    bad[key] = nlohmann::json::array({1});
    EXPECT_THAT(manifest_from_json(bad), FailsWith(ErrorCode::corrupt, HasSubstr(key)));
  }
  nlohmann::json newer = good;
  newer["schema"] = 2;
  EXPECT_THAT(manifest_from_json(newer), FailsWith(ErrorCode::corrupt, HasSubstr("schema 2")));
  nlohmann::json negative = good;
  negative["files"][0]["size_bytes"] = -1;
  EXPECT_THAT(manifest_from_json(negative), FailsWith(ErrorCode::corrupt, HasSubstr("size_bytes")));
  EXPECT_FALSE(manifest_from_json(nlohmann::json::array()));
}

TEST(CaptureText, IsTheFactsOfABundleAndAnyOtherTextAsItIs) {
  const TempDir dir;
  ASSERT_TRUE(write_bundle(dir / "b.tar.gz", contents(), redact::Redactor(), kHead));
  const auto facts = capture_text(*read_file(dir / "b.tar.gz"), "b.tar.gz");
  ASSERT_TRUE(facts);
  EXPECT_EQ(nlohmann::json::parse(*facts)["host"], "node7");
  EXPECT_EQ(*capture_text("NVIDIA-SMI 550", "x"), "NVIDIA-SMI 550");
  // "GPU 0: NVIDIA L4\n" through gzip -n: nvidia-bug-report.log.gz is one such text.
  static constexpr unsigned char kZipped[] = {
      0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x73, 0x0f, 0x08, 0x55, 0x30, 0xb0, 0x52, 0xf0, 0x0b,
      0xf3, 0x74, 0xf1, 0x74, 0x54, 0xf0, 0x31, 0xe1, 0x02, 0x00, 0xf7, 0xd2, 0xc7, 0xbb, 0x11, 0x00, 0x00, 0x00};
  const std::string zipped(reinterpret_cast<const char*>(kZipped), sizeof kZipped);
  EXPECT_EQ(*capture_text(zipped, "x.gz"), "GPU 0: NVIDIA L4\n");
  EXPECT_FALSE(capture_text(zipped.substr(0, 25), "x.gz"));
  std::string cut = *read_file(dir / "b.tar.gz");
  cut.resize(cut.size() / 2);
  EXPECT_THAT(capture_text(cut, "cut.tar.gz"), FailsWith(ErrorCode::corrupt, HasSubstr("cut.tar.gz")));
}

}  // namespace
}  // namespace gpuwarden::bundle
