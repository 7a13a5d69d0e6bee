// SPDX-License-Identifier: Apache-2.0
#include "hosts/hosts_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/run.hpp"
#include "options.hpp"

namespace gpuwarden::cli {

bool names_hosts(const Args& args) { return args.has("hosts") || args.has("hostfile"); }

Result<std::vector<hosts::Host>> read_hosts(const Args& args) {
  static constexpr auto kClashes = std::to_array<Clash>({{"hosts", "hostfile", "name the hosts in one place"}});
  GPUWARDEN_CHECK(check_clashes(args, kClashes));
  if (const auto file = args.text("hostfile")) {
    auto text = read_file(*file, std::size_t{1} << 20U);
    if (!text) return std::unexpected(about("hostfile", text.error()));
    return hosts::parse_hostfile(*text, *file);
  }
  auto found = hosts::parse_hosts(args.list("hosts"));
  if (!found) return std::unexpected(about("hosts", found.error()));
  return found;
}

Result<hosts::SshOptions> read_ssh(const Context& context) {
  hosts::SshOptions options;
  options.ssh = context.args.text("ssh").value_or(options.ssh);
  options.program = context.args.text("remote-program").value_or(options.program);
  const auto words = split_words(options.ssh);
  if (words.empty()) return fail(ErrorCode::invalid_argument, "--ssh: no command is given", "--ssh \"ssh -p 2222\"");
  if (options.program.empty()) return fail(ErrorCode::invalid_argument, "--remote-program: no program is given");
  // What a shell would make something else of is left to it.
  const std::string program(words[0]);
  if (program.find_first_of("'\"\\$~`") != std::string::npos) return options;
  if (auto found = launch::check_program(program, context.environment); !found) {
    found.error().hint = program == "ssh" ? "sudo apt install openssh-client" : "check --ssh";
    return std::unexpected(std::move(found).error());
  }
  return options;
}

Result<void> check_without_hosts(const Args& args, std::span<const Option> options) {
  for (const Option& option : options) {
    if (option.names == std::string_view(kRemoteProgram) && args.has("slurm")) continue;
    if (args.has(key_of(option)))
      return fail(ErrorCode::invalid_argument, fmt::format("--{} requires --hosts", key_of(option)),
                  "--hosts a,b:4 names the hosts");
  }
  return {};
}

}  // namespace gpuwarden::cli
