// SPDX-License-Identifier: Apache-2.0
// What files gpuwarden diagnose takes for logs: encodings, packed ones, cut ones, and what is no text.
#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "support/repetitions.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr std::string_view kMismatch =
    "step 10 loss 2.31\n"
    "Failed to initialize NVML: Driver/library version mismatch\n";
constexpr std::string_view kFound = "[driver_library_mismatch]";

using AddFilter = int (*)(archive*);
using SetFormat = int (*)(archive*);

/// The files, packed by libarchive.
std::string packed(AddFilter filter, SetFormat format, const std::map<std::string, std::string>& files) {
  const std::unique_ptr<archive, int (*)(archive*)> writer(::archive_write_new(), ::archive_write_free);
  EXPECT_EQ(filter(writer.get()), ARCHIVE_OK) << ::archive_error_string(writer.get());
  EXPECT_EQ(format(writer.get()), ARCHIVE_OK);
  std::string bytes(std::size_t{1} << 20U, '\0');
  std::size_t used = 0;
  EXPECT_EQ(::archive_write_open_memory(writer.get(), bytes.data(), bytes.size(), &used), ARCHIVE_OK);
  for (const auto& [name, text] : files) {
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(::archive_entry_new(), ::archive_entry_free);
    ::archive_entry_set_pathname(entry.get(), name.c_str());
    ::archive_entry_set_size(entry.get(), static_cast<la_int64_t>(text.size()));
    ::archive_entry_set_filetype(entry.get(), AE_IFREG);
    EXPECT_EQ(::archive_write_header(writer.get(), entry.get()), ARCHIVE_OK);
    EXPECT_EQ(::archive_write_data(writer.get(), text.data(), text.size()), static_cast<la_ssize_t>(text.size()));
  }
  EXPECT_EQ(::archive_write_close(writer.get()), ARCHIVE_OK);
  bytes.resize(used);
  return bytes;
}

std::string packed(AddFilter filter, std::string_view text) {
  return packed(filter, ::archive_write_set_format_raw, {{"data", std::string(text)}});
}

std::string wide(std::string_view text, bool little) {
  std::string bytes;
  for (const char c : text) {
    if (!little) bytes.push_back('\0');
    bytes.push_back(c);
    if (little) bytes.push_back('\0');
  }
  return bytes;
}

/// An object file, as far as anybody looks.
std::string binary() {
  std::string bytes =
      "\x7f"
      "ELF\x02\x01\x01";
  for (int i = 0; i < 2000; ++i) bytes.push_back(static_cast<char>(i * 37));
  return bytes;
}

class DiagnoseFiles : public Program {
 protected:
  void expect_found(const std::string& path) const {
    const auto done = run({"diagnose", path});
    EXPECT_EQ(done.exit_code, 1) << path << done.standard_error;
    EXPECT_THAT(done.standard_output, HasSubstr(kFound)) << path;
    EXPECT_THAT(done.standard_output, HasSubstr(":2: ")) << path;
    EXPECT_EQ(done.standard_error, "") << path;
  }
};

TEST_F(DiagnoseFiles, Utf16IsReadWithAndWithoutItsMark) {
  expect_found(file("little.log", "\xFF\xFE" + wide(kMismatch, true)));
  expect_found(file("big.log", "\xFE\xFF" + wide(kMismatch, false)));
  expect_found(file("unmarked_little.log", wide(kMismatch, true)));
  expect_found(file("unmarked_big.log", wide(kMismatch, false)));
}

TEST_F(DiagnoseFiles, PackedLogsAreReadWhateverPackedThem) {
  expect_found(file("run.log.gz", packed(::archive_write_add_filter_gzip, kMismatch)));
  expect_found(file("run.log.xz", packed(::archive_write_add_filter_xz, kMismatch)));
  expect_found(file("run.log.bz2", packed(::archive_write_add_filter_bzip2, kMismatch)));
  expect_found(file("run.log.zst", packed(::archive_write_add_filter_zstd, kMismatch)));
  expect_found(file("run.log.lz4", packed(::archive_write_add_filter_lz4, kMismatch)));
  expect_found(file("wide.log.gz", packed(::archive_write_add_filter_gzip, wide(kMismatch, true))));
}

TEST_F(DiagnoseFiles, AnArchiveIsReadAsAFolderIs) {
  const std::string path =
      file("logs.tar.xz", packed(::archive_write_add_filter_xz, ::archive_write_set_format_pax_restricted,
                                 {{"rank-3.log", std::string(kMismatch)}, {"a.out", binary()}, {"train.py", "CUDA"}}));
  const auto json = this->json({"diagnose", path});
  ASSERT_EQ(json["files"].size(), 1U) << json;
  EXPECT_EQ(json["files"][0]["file"], path + ":rank-3.log");
  EXPECT_EQ(json["files"][0]["rank"], 3);
  EXPECT_EQ(json["not_read"], Json::array({path + ":a.out holds no text"}));
}

TEST_F(DiagnoseFiles, WhatCannotBeUnpackedIsSaidWithItsReason) {
  expect_error({"diagnose", file("broken.gz", "\x1f\x8b\x08garbage")}, 2, "broken.gz cannot be unpacked: ");
  expect_error({"diagnose", file("model.zip", std::string_view("PK\x03\x04\0\0CUDA out of memory", 24))}, 2,
               "model.zip is a zip archive");
  const std::string large((std::size_t{64} << 20U) + 1, ' ');
  const std::string path = file("large.gz", packed(::archive_write_add_filter_gzip, large));
  expect_error({"diagnose", path}, 2, "large.gz is larger than 64 MiB when unpacked");
  EXPECT_THAT(run({"diagnose", path}).standard_error, HasSubstr("unpack it first"));
  EXPECT_EQ(json({"diagnose", path})["causes"], Json::array());
}

TEST_F(DiagnoseFiles, WhatIsLeftOfACutFileIsRead) {
  std::string text(kMismatch);
  for (int i = 0; text.size() < (1U << 20U); ++i) text += "step " + std::to_string(i * 7919) + "\n";
  std::string bytes = packed(::archive_write_add_filter_gzip, text);
  bytes.resize(bytes.size() / 2);
  const auto done = run({"diagnose", file("cut.gz", bytes)});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_THAT(done.standard_output, HasSubstr(kFound));
  EXPECT_THAT(done.standard_error, HasSubstr("cut.gz was read only in part: "));
}

TEST_F(DiagnoseFiles, ALogThatWasTruncatedUnderItsWriterBeginsWithNuls) {
  for (const std::size_t nuls : {1U, 4U, 8191U, (2U << 20U) + 3U}) {
    const std::string name = "run" + std::to_string(nuls) + ".log";
    expect_found(file("logs" + name + "/" + name, std::string(nuls, '\0') + std::string(kMismatch)));
    expect_found((dir_ / ("logs" + name)).string());
  }
  const std::string sparse = file("sparse.log", "");
  std::filesystem::resize_file(sparse, std::uintmax_t{1} << (kSanitized ? 27U : 30U));
  EXPECT_THAT(run({"diagnose", sparse}).standard_error, HasSubstr("sparse.log is empty"));
  expect_found(file("hole/run.log", std::string(kMismatch) + std::string(4096, '\0') + "step 11\n"));
  expect_found((dir_ / "hole").string());
}

TEST_F(DiagnoseFiles, AFolderWithoutTextIsAnErrorThatSaysSo) {
  for (const char* name : {"a.out", "b.out", "c.out", "d.out"}) file(std::string("box/") + name, binary());
  const std::string box = (dir_ / "box").string();
  expect_error({"diagnose", box}, 2, "there is nothing to read: " + box + "/a.out holds no text");
  EXPECT_THAT(run({"diagnose", box}).standard_error, HasSubstr(", and 1 more\n"));
  const auto json = this->json({"diagnose", box});
  EXPECT_EQ(json["files"], Json::array());
  EXPECT_EQ(json["causes"], Json::array());
  EXPECT_EQ(json["not_read"].size(), 4U) << json;
}

TEST_F(DiagnoseFiles, WhatIsNoTextBesideLogsIsNamedAndNoFailure) {
  file("box/run.log", "all is well\n");
  file("box/a.out", binary());
  const auto done = run({"diagnose", (dir_ / "box").string()});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_THAT(done.standard_output, HasSubstr("nothing GPU-related found in 1 line\n"));
  EXPECT_THAT(done.standard_error, HasSubstr("warning: not read: "));
  EXPECT_THAT(done.standard_error, HasSubstr("a.out holds no text"));
}

TEST_F(DiagnoseFiles, ANamedFileThatIsNoTextIsReadWithAWarning) {
  const auto done = run({"diagnose", file("a.out", binary())});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_THAT(done.standard_error, HasSubstr("a.out does not look like text"));
  const auto coloured = run({"diagnose", file("latin.log", "\x1b[31mr\xe9ussi\x1b[0m\r\b\n")});
  EXPECT_THAT(coloured.standard_error, Not(HasSubstr("text")));
}

}  // namespace
}  // namespace gpuwarden::testing
