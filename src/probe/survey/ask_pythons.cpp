// SPDX-License-Identifier: Apache-2.0
// Starts Pythons and asks PyTorch what no file tells: whether CUDA is available, which cuDNN and NCCL it loads.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

using facts::Environment;
using facts::PythonEnvironment;
using Json = nlohmann::json;

/// The mark keeps apart what imported packages print.
constexpr const char* kMark = "gpuwarden-answer:";
constexpr const char* kQuestion =
    "import json, torch\n"
    "def ask(question):\n"
    "    try: return question()\n"
    "    except Exception: return None\n"
    "print('gpuwarden-answer:' + json.dumps({\n"
    "  'flags': ask(lambda: torch._C._cuda_getArchFlags()),\n"
    "  'available': ask(lambda: torch.cuda.is_available()),\n"
    "  'debug': ask(lambda: torch.version.debug),\n"
    "  'cudnn': ask(lambda: torch.backends.cudnn.version()),\n"
    "  'nccl': ask(lambda: '.'.join(map(str, torch.cuda.nccl.version())))}))\n";

/// Each field stays as it is where the answer has none of the right kind.
void take_answer(const Json& answer, PythonEnvironment& python) {
  const auto text = [&](const char* key) {
    return answer.contains(key) && answer[key].is_string() ? printable(answer[key].get<std::string>()) : "";
  };
  const auto flag = [&](const char* key) {
    return answer.contains(key) && answer[key].is_boolean() ? std::optional(answer[key].get<bool>()) : std::nullopt;
  };
  const std::string flags = text("flags");
  const auto words = split_words(flags);
  if (!words.empty()) python.torch_architectures.assign(words.begin(), words.end());
  if (const auto available = flag("available")) python.cuda_available = available;
  if (const auto debug = flag("debug")) python.torch_debug = debug;
  if (answer.contains("cudnn") && answer["cudnn"].is_number_integer())
    python.cudnn = std::to_string(answer["cudnn"].get<std::int64_t>());
  if (const std::string nccl = text("nccl"); !nccl.empty()) python.nccl = nccl;
}

void ask(const Scene& scene, PythonEnvironment& python) {
  const auto text =
      scene.run({.argv = {python.path + "/bin/python3", "-c", kQuestion}, .deadline = scene.request.python_deadline});
  if (!text) {
    python.problem =
        text.error().code == ErrorCode::failed ? "import torch failed: " + text.error().message : text.error().message;
    return;
  }
  const std::size_t at = text->find(kMark);
  const auto answer =
      at == std::string::npos ? Json() : Json::parse(text->substr(at + std::string_view(kMark).size()), nullptr, false);
  if (answer.is_object())
    take_answer(answer, python);
  else
    python.problem = "its answer could not be read";
}

}  // namespace

void ask_pythons(const Scene& scene, Environment& environment) {
  if (!scene.request.start_pythons || !scene.tree.is_live()) return;
  int asked = 0;
  for (PythonEnvironment& python : environment.pythons) {
    if (facts::find_package(python, "torch") == nullptr) continue;
    if (++asked > kMostPythonsAsked)
      python.problem = "not asked: there are too many Pythons";
    else
      ask(scene, python);
  }
}

}  // namespace gpuwarden::probe
