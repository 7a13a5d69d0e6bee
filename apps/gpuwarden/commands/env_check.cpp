// SPDX-License-Identifier: Apache-2.0
// gpuwarden env check: the doctor's checks of what chooses a toolkit, and nothing else.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "commands/env_parts.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/doctor/json.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/toolkits/toolkits.hpp"
#include "machine.hpp"
#include "render/doctor_text.hpp"
#include "render/print_json.hpp"

namespace gpuwarden::cli {
namespace {

using doctor::Severity;

/// What can contradict each other: PATH, CUDA_HOME, CUDA_PATH, LD_LIBRARY_PATH, the toolkits, PyTorch, the driver.
constexpr auto kChecks = std::to_array<const char*>(
    {"toolkit-newer-than-driver", "toolkit-by-minor-version", "toolkit-and-driver-cuda-differ",
     "toolkit-too-old-for-gpu", "toolkit-dropped-gpu", "host-compiler-too-new", "glibc-too-new-for-toolkit",
     "cuda-home-differs-from-nvcc", "cuda-home-without-toolkit", "cuda-path-differs-from-cuda-home",
     "library-path-of-other-toolkit", "toolkit-differs-from-torch", "library-path-of-another-cuda",
     "libcuda-stub-first", "libcuda-compat-unfit", "cudnn-shadowed", "gpu-library-preloaded"});

/// What is in use, in a line each.
std::string in_use(const facts::Environment& software) {
  std::string text;
  for (const auto& toolkit : software.toolkits) {
    const auto reasons = toolkits::reasons_in_use(toolkit);
    if (reasons.empty()) continue;
    text += fmt::format("CUDA {} ({}): {}\n", printable(toolkit.version), printable(toolkit.path), join(reasons, "; "));
  }
  for (const auto& python : software.pythons) {
    if (!python.active || !python.torch_cuda) continue;
    const auto* torch = facts::find_package(python, "torch");
    text += fmt::format("PyTorch {} in {}: built {}\n", torch == nullptr ? "" : printable(torch->version),
                        printable(python.path),
                        python.torch_cuda->empty() ? "without CUDA" : "with CUDA " + printable(*python.torch_cuda));
  }
  return text.empty() ? "no CUDA toolkit and no PyTorch is in use\n" : text;
}

}  // namespace

int env_check(Context& context) {
  if (!context.args.rest.empty())
    return complain({ErrorCode::invalid_argument,
                     fmt::format("env check: unexpected argument '{}'", printable(context.args.rest.front())),
                     "see gpuwarden env --help"});
  const auto style = style_of(context);
  if (!style) return complain(style.error());
  const auto snapshot = look_around(context, true);
  if (!snapshot) return complain(snapshot.error());
  const auto knowledge = open_knowledge(context);
  if (!knowledge) return complain(knowledge.error());
  const doctor::Choice choice{{kChecks.begin(), kChecks.end()}, {}};
  if (const auto valid = doctor::validate(choice, *knowledge); !valid) return complain(valid.error());
  const auto examination = doctor::examine(*snapshot, *knowledge, {}, choice);
  if (context.args.has("json")) {
    print_json(doctor::to_json(examination));
  } else {
    fmt::print("{}{}", in_use(software_of(*snapshot)), doctor_text(examination, "what chooses CUDA", false, *style));
  }
  return examination.worst >= Severity::warning ? kNo : kFine;
}

}  // namespace gpuwarden::cli
