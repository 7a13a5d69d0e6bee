// SPDX-License-Identifier: Apache-2.0
#include "hosts/gather.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::hosts {

Result<void> make_log_folders(const std::filesystem::path& folder, const std::vector<std::string>& hosts) {
  for (const std::string& host : hosts) {
    std::error_code error;
    const auto place = folder / host;
    std::filesystem::create_directories(place, error);
    if (error || ::access(place.c_str(), W_OK | X_OK) != 0)
      return fail(ErrorCode::invalid_argument, fmt::format("cannot write logs into {}", printable(place.string())));
  }
  return {};
}

void Gather::begin(std::optional<std::filesystem::path> folder) {
  pump(true);
  writers_.clear();
  options_.folder = std::move(folder);
}

launch::LineWriter Gather::make_writer(const Key& key, std::uint32_t local) {
  const auto& [host, rank, error] = key;
  launch::Outlet& ours = error ? errors_ : output_;
  if (rank < 0) return {fmt::format("[{}] ", host), ours, UniqueFd()};
  const std::uint8_t bit = error ? 2 : 1;
  const bool shown_too = (options_.tee.of(local) & bit) != 0;
  const bool redirected = (options_.redirects.of(local) & bit) != 0;
  const bool logged = shown_too || redirected || (options_.redirects.none() && options_.tee.none());
  UniqueFd log;
  if (options_.folder && logged) {
    const auto path = *options_.folder / host / fmt::format("rank-{}.{}", rank, error ? "err" : "out");
    log.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!log) losses_.push_back(fmt::format("cannot write {}: {}", printable(path.string()), std::strerror(errno)));
  }
  return {fmt::format("[{}:{}] ", host, rank), redirected && !shown_too ? nowhere_ : ours, std::move(log)};
}

void Gather::add(const std::string& host, std::optional<std::uint32_t> rank, std::uint32_t local, bool error,
                 std::string_view text) {
  const Key key{host, rank ? std::int64_t{*rank} : -1, error};
  auto found = writers_.find(key);
  if (found == writers_.end()) found = writers_.emplace(key, make_writer(key, local)).first;
  found->second.add(text);
}

void Gather::say(std::string_view text) {
  if (!text.empty()) errors_.write(text);
}

void Gather::pump(bool all) {
  if (all) {
    for (auto& [key, writer] : writers_) writer.flush();
  }
  output_.pump();
  errors_.pump();
}

std::vector<std::string> Gather::take_losses() {
  for (const auto& [outlet, told, name] : {std::tuple(&output_, &told_output_, "standard output"),
                                           std::tuple(&errors_, &told_errors_, "standard error")}) {
    if (outlet->error() && !std::exchange(*told, true))
      losses_.push_back(fmt::format("cannot write {}: {}; the rest is lost", name, std::strerror(*outlet->error())));
  }
  for (const auto& [key, writer] : writers_) {
    const auto error = writer.log_error();
    if (!error || std::exchange(told_log_, true)) continue;
    losses_.push_back(fmt::format("cannot write the log of rank {} on {}: {}; the logs are incomplete",
                                  std::get<1>(key), std::get<0>(key), std::strerror(*error)));
  }
  return std::exchange(losses_, {});
}

void Gather::finish(Clock& clock, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kStep(20);
  pump(true);
  const auto end = clock.now() + patience;
  while (waiting() && clock.now() < end) {
    clock.sleep_for(kStep);
    pump();
  }
  for (auto& [key, writer] : writers_) writer.close_log();
}

}  // namespace gpuwarden::hosts
