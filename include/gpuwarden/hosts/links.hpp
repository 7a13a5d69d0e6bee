// SPDX-License-Identifier: Apache-2.0
// Programs that this one speaks with while they run; one interface, so that a test can stand in for ssh and the hosts
// behind it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::hosts {

/// Something that a program said or did, or a signal that this one got.
struct News {
  enum class Kind { output, errors, ended, signal };
  Kind kind = Kind::output;
  std::size_t link = 0;          ///< which program; of a signal nothing
  std::string text;              ///< what it wrote
  std::optional<int> exit_code;  ///< how it ended
  std::optional<int> signal;     ///< the one that ended it, or that this program got
};

class Links {
 public:
  Links() = default;
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;
  virtual ~Links() = default;
  /// Starts the command as the next link (0, 1, ...). Fails as run_command() does; its number is taken all the same.
  virtual Result<void> start(const Command& command) = 0;
  /// To its standard input. Never waits: what it does not take yet is kept.
  virtual void send(std::size_t link, std::string_view text) = 0;
  /// Its standard input ends here.
  virtual void close_input(std::size_t link) = 0;
  /// Kills it; there is no more news of it.
  virtual void end(std::size_t link) = 0;
  /// Waits until there is news, at most so long. `listening` false: what programs write is left with them, so that they
  /// have to wait.
  virtual std::vector<News> wait(std::chrono::milliseconds most, bool listening = true) = 0;
};

/// Real programs, each in a process group of its own, so that a terminal's Ctrl-C does not reach them; the kernel kills
/// them when this process dies. While it lives the signals of the calling thread are news (launch::SignalScope).
std::unique_ptr<Links> start_links();

}  // namespace gpuwarden::hosts
