// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/kernel_messages.hpp"

#include <fmt/format.h>

#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/capture/kernel_log.hpp"

namespace gpuwarden::probe {

Result<std::string> read_kernel_messages(std::chrono::milliseconds deadline) {
  bool found = false;
  bool late = false;
  for (const std::vector<std::string>& argv :
       {std::vector<std::string>{"dmesg"},
        std::vector<std::string>{"journalctl", "-k", "-b", "--no-pager", "-o", "short"}}) {
    auto done = run_command({.argv = argv, .deadline = deadline, .output_cap = std::size_t{32} << 20U});
    found = found || done.has_value();
    late = late || (done && done->timed_out);
    if (done && done->exit_code == 0) return std::move(done->standard_output);
  }
  if (late)
    return fail(ErrorCode::timed_out,
                fmt::format("reading the kernel log timed out after {}", format_duration(deadline)), "");
  if (found)
    return fail(ErrorCode::permission_denied, "this user has no permission to read the kernel log",
                "sudo gpuwarden doctor, or allow it: sudo sysctl kernel.dmesg_restrict=0");
  return fail(ErrorCode::unavailable, "neither dmesg nor journalctl is installed", "");
}

Result<std::vector<facts::KernelFault>> read_kernel_faults(std::chrono::milliseconds deadline) {
  GPUWARDEN_TRY(const std::string messages, read_kernel_messages(deadline));
  return capture::read_kernel_log(messages).faults;
}

}  // namespace gpuwarden::probe
