// SPDX-License-Identifier: Apache-2.0
// The output of ranks on many hosts: to our own streams line by line, behind "[host:rank] ", and into files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/launch/job.hpp"
#include "gpuwarden/launch/output.hpp"

namespace gpuwarden::hosts {

struct GatherOptions {
  /// Holds a folder for each host, with "rank-N.out" and "rank-N.err" by RANK. Empty: nothing is kept.
  std::optional<std::filesystem::path> folder;
  launch::StreamChoice redirects;  ///< as JobSpec::redirects, by the rank's number on its host
  launch::StreamChoice tee;
};

/// Makes the folders, so that a place that cannot be written is known before anything runs. Fails with
/// invalid_argument.
Result<void> make_log_folders(const std::filesystem::path& folder, const std::vector<std::string>& hosts);

class Gather {
 public:
  explicit Gather(GatherOptions options) : options_(std::move(options)) {}
  /// Logs go into another folder from here on: of another try.
  void begin(std::optional<std::filesystem::path> folder);
  /// `local` is the rank's number on its host. Without a rank it is the host's own word.
  void add(const std::string& host, std::optional<std::uint32_t> rank, std::uint32_t local, bool error,
           std::string_view text);
  /// To standard error, as it is.
  void say(std::string_view text);
  /// Writes what can be written without waiting; unfinished lines too where `all`.
  void pump(bool all = false);
  /// Something waits for our streams' reader: take no more before it is written.
  bool waiting() const { return output_.waiting() || errors_.waiting(); }
  /// Nobody reads our standard output any more.
  bool reader_gone() const { return output_.reader_gone(); }
  /// What could not be written, in a sentence each, once.
  std::vector<std::string> take_losses();
  /// Writes all that is left, as long as its reader takes it within `patience`.
  void finish(Clock& clock, std::chrono::milliseconds patience);

 private:
  using Key = std::tuple<std::string, std::int64_t, bool>;  ///< host, rank (-1: none), whether errors
  launch::LineWriter make_writer(const Key& key, std::uint32_t local);

  GatherOptions options_;
  launch::Outlet output_{1};
  launch::Outlet errors_{2};
  launch::Outlet nowhere_{-1};
  std::map<Key, launch::LineWriter> writers_;
  std::vector<std::string> losses_;
  bool told_output_ = false;
  bool told_errors_ = false;
  bool told_log_ = false;
};

}  // namespace gpuwarden::hosts
