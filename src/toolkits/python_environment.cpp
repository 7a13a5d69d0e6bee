// SPDX-License-Identifier: Apache-2.0
// What is known of the channels and indices comes from their own pages: anaconda.org/conda-forge/cuda-toolkit (from
// CUDA 12.0 on), anaconda.org/nvidia/cuda-toolkit (labels cuda-11.3.0 to 12), pypi.org/project/nvidia-cuda-nvcc-cu12
// and its sisters, download.pytorch.org/whl.
#include "gpuwarden/toolkits/python_environment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/toolkits/shell.hpp"

namespace gpuwarden::toolkits {

namespace {

namespace fs = std::filesystem;
using knowledge::Knowledge;
using knowledge::Version;
using Words = std::vector<std::string>;

constexpr std::array<std::pair<std::string_view, Maker>, 5> kMakers{{{"mamba", Maker::mamba},
                                                                     {"conda", Maker::conda},
                                                                     {"micromamba", Maker::micromamba},
                                                                     {"uv", Maker::uv},
                                                                     {"venv", Maker::venv}}};

bool is_conda(Maker maker) { return maker != Maker::uv && maker != Maker::venv; }

bool consists_of(std::string_view text, std::string_view others) {
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || others.contains(c);
  });
}

/// Neither an option nor anything that a program would take for something else.
Result<void> check(const PythonEnvironmentRequest& request, Maker maker) {
  const bool folder = !is_conda(maker) || request.name.contains('/');
  const bool good_name = folder ? !request.name.empty() && printable(request.name) == request.name
                                : consists_of(request.name, "._-") && request.name != "." && request.name != "..";
  if (!good_name || request.name.starts_with('-'))
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is not a valid environment name", printable(request.name)),
                "letters, digits, '.', '_' and '-'");
  const bool digits = !request.python || (request.python->find_first_not_of("0123456789.") == std::string::npos &&
                                          Version::parse(*request.python) && !request.python->ends_with('.'));
  if (!digits)
    return fail(ErrorCode::invalid_argument, fmt::format("--python: '{}' is not a version", printable(*request.python)),
                "for example 3.11");
  for (const std::string& package : request.packages) {
    if (consists_of(package, "._-[]=<>!~+,*") && std::isalnum(static_cast<unsigned char>(package.front())) != 0)
      continue;
    return fail(ErrorCode::invalid_argument, fmt::format("--with: '{}' is not a package", printable(package)),
                "for example torch or vllm==0.10.0");
  }
  return {};
}

/// The one way to write the folder, so that looking, making and removing mean the same: "new/../old" is no folder as
/// long as "new" is none, but makers write to "old".
Result<fs::path> folder_of(const PythonEnvironmentRequest& request) {
  const fs::path folder = (request.working_directory / request.name).lexically_normal();
  if (folder.is_absolute()) return folder.has_filename() ? folder : folder.parent_path();
  return fail(ErrorCode::invalid_argument,
              fmt::format("'{}': the working directory is not known", printable(request.name)),
              "name the environment's folder from / on");
}

/// A later minor release may have come since; of a major release that is not known there is nothing to go by.
Result<void> check_cuda(const Version& cuda, const Knowledge& knowledge, std::vector<std::string>& notes) {
  if (knowledge.toolkit(cuda) != nullptr) return {};
  const Version newest = knowledge.newest_toolkit();
  const std::string newer = fmt::format("CUDA {} is newer than this knowledge base, which ends with {} (as of {})",
                                        to_string(cuda), to_string(newest), knowledge.as_of());
  if (cuda.major > newest.major)
    return fail(ErrorCode::unsatisfied, newer, "a file for --knowledge adds a release that has come since");
  if (cuda > newest) {
    notes.push_back(newer + ": whether there are packages of it is not known");
    return {};
  }
  std::vector<std::string> known;
  for (const auto& toolkit : knowledge.toolkits()) {
    const std::string release = to_string(knowledge::release_of(toolkit.version));
    if (toolkit.version.major == cuda.major && (known.empty() || known.back() != release)) known.push_back(release);
  }
  return fail(ErrorCode::invalid_argument, fmt::format("there is no CUDA {}", to_string(cuda)),
              known.empty() ? fmt::format("the newest is {}", to_string(knowledge.newest_toolkit()))
                            : fmt::format("of CUDA {} there are: {}", cuda.major, join(known, ", ")));
}

/// "torch" of "torch==2.5.1".
std::string_view name_of(std::string_view package) { return package.substr(0, package.find_first_of("[=<>!~+,")); }

bool is_torch(std::string_view package) {
  const auto name = name_of(package);
  return name == "torch" || name == "torchvision" || name == "torchaudio";
}

/// The newest release of PyTorch for this CUDA and Python.
const knowledge::TorchBuild* newest_torch(const Version& cuda, const std::optional<std::string>& python,
                                          const Knowledge& knowledge) {
  const std::string build = knowledge::build_of_cuda(cuda);
  const auto wanted = python ? Version::parse(*python) : std::nullopt;
  const knowledge::TorchBuild* newest = nullptr;
  for (const auto& row : knowledge.torch_builds()) {
    const bool fits =
        !wanted || !wanted->minor || !row.python_highest ||
        (knowledge::release_of(*wanted) >= row.python_lowest && knowledge::release_of(*wanted) <= row.python_highest);
    if (row.build == build && fits && (newest == nullptr || row.torch > newest->torch)) newest = &row;
  }
  return newest;
}

Error no_torch(const PythonEnvironmentRequest& request, const Knowledge& knowledge) {
  std::vector<std::string> builds;
  for (const auto& row : knowledge.torch_builds()) {
    const auto cuda = knowledge::cuda_of_build(row.build);
    if (!cuda || newest_torch(*cuda, request.python, knowledge) == nullptr) continue;
    if (std::ranges::find(builds, to_string(*cuda)) == builds.end()) builds.push_back(to_string(*cuda));
  }
  std::ranges::sort(builds, {}, [](const std::string& text) { return Version::parse(text).value_or(Version{}); });
  return {ErrorCode::unsatisfied,
          fmt::format("there is no PyTorch built with CUDA {}{}", to_string(knowledge::release_of(request.cuda)),
                      request.python ? " for Python " + *request.python : ""),
          builds.empty() ? "" : "there are builds for CUDA " + join(builds, ", ")};
}

/// conda's packages for a CUDA version.
Words conda_packages(const Version& cuda, const Knowledge& knowledge, std::vector<std::string>& notes) {
  const std::string release = to_string(knowledge::release_of(cuda));
  if (cuda.major >= 12) return {"--channel", "conda-forge", "cuda-toolkit", "cuda-version=" + release};
  if (cuda >= Version{11, 3}) {
    const auto* toolkit = knowledge.toolkit(cuda);
    return {"--channel",
            fmt::format("nvidia/label/cuda-{}", toolkit == nullptr ? release + ".0" : std::string(toolkit->name)),
            "--channel", "conda-forge", "cuda-toolkit"};
  }
  notes.push_back(fmt::format("conda has only the libraries of CUDA {}, not its compiler", release));
  return {"--channel", "conda-forge", "cudatoolkit=" + release};
}

/// NVIDIA's packages on PyPI; before CUDA 13 their names carry the major release.
Result<Words> pip_packages(const Version& cuda) {
  const std::string release = to_string(knowledge::release_of(cuda));
  if (cuda < Version{11, 7})
    return fail(ErrorCode::unsatisfied, fmt::format("CUDA {} is not on PyPI", release),
                "conda has it (--tool conda); gpuwarden env list shows toolkits that are installed");
  const std::string suffix = cuda.major >= 13 ? "" : fmt::format("-cu{}", cuda.major);
  Words words;
  for (const char* part : {"nvcc", "runtime", "nvrtc"})
    words.push_back(fmt::format("nvidia-cuda-{}{}=={}.*", part, suffix, release));
  return words;
}

/// Where pip works: a conda environment, uv's, or a venv.
Words pip_of(const PythonEnvironmentRequest& request, Maker maker, const std::string& selector) {
  if (maker == Maker::uv) return {"uv", "pip", "install", "--python", request.name + "/bin/python"};
  if (maker == Maker::venv) return {request.name + "/bin/python", "-m", "pip", "install"};
  return {program_of(maker), "run", selector, request.name, "python", "-m", "pip", "install"};
}

/// The command that makes the environment, with its Python and, for conda, what brings CUDA.
Words first_command(const PythonEnvironmentRequest& request, Maker maker, const std::string& selector,
                    const std::string& python, const Words& cuda) {
  if (maker == Maker::uv) {
    Words words{"uv", "venv"};
    if (!python.empty()) words.insert(words.end(), {"--python", python});
    words.push_back(request.name);
    return words;
  }
  if (maker == Maker::venv) return {"python" + (python.empty() ? "3" : python), "-m", "venv", request.name};
  Words words{program_of(maker), "create", "--yes", selector, request.name};
  words.insert(words.end(), cuda.begin(), cuda.end());
  words.push_back(python.empty() ? "python" : "python=" + python);
  return words;
}

/// pip's commands: PyTorch from the index of its CUDA build, then the rest with that index at hand.
Result<std::vector<Words>> package_commands(const PythonEnvironmentRequest& request, const Words& pip, bool conda,
                                            const knowledge::TorchBuild* torch) {
  const std::string index = "https://download.pytorch.org/whl/" + knowledge::build_of_cuda(request.cuda);
  Words first = pip;
  Words rest = pip;
  for (const std::string& package : request.packages) {
    const bool pinned = package != "torch" || torch == nullptr;
    (is_torch(package) ? first : rest).push_back(pinned ? package : "torch==" + to_string(torch->torch));
  }
  const std::size_t begun = pip.size();
  std::vector<Words> commands;
  if (first.size() == begun && !conda) {  // PyTorch brings its own CUDA libraries
    GPUWARDEN_TRY(const Words cuda, pip_packages(request.cuda));
    Words words = pip;
    words.insert(words.end(), cuda.begin(), cuda.end());
    commands.push_back(std::move(words));
  }
  if (first.size() > begun) {
    first.insert(first.end(), {"--index-url", index});
    commands.push_back(first);
  }
  if (rest.size() > begun) {
    rest.insert(rest.end(), {"--extra-index-url", index});
    commands.push_back(rest);
  }
  return commands;
}

}  // namespace

std::string_view to_string(Maker maker) { return kMakers[static_cast<std::size_t>(maker)].first; }

std::optional<Maker> maker_from(std::string_view name) {
  const auto* const found = std::ranges::find(kMakers, name, &decltype(kMakers)::value_type::first);
  return found == kMakers.end() ? std::nullopt : std::optional(found->second);
}

std::string program_of(Maker maker) { return maker == Maker::venv ? "python3" : std::string(to_string(maker)); }

std::vector<Maker> installed_makers(const Environment& variables) {
  std::vector<Maker> makers;
  for (const auto& [name, maker] : kMakers) {
    // What lies in the current folder is no installation.
    const bool there = std::ranges::any_of(program_files(program_of(maker), variables), [](const std::string& file) {
      return file.starts_with('/') && ::access(file.c_str(), X_OK) == 0;
    });
    if (there) makers.push_back(maker);
  }
  return makers;
}

std::string instead_of(const PythonEnvironmentPlan& plan) {
  return plan.instead.empty() ? "install conda, mamba, micromamba, uv or python3-venv"
                              : fmt::format("--tool {0}: {0} is installed", to_string(plan.instead.front()));
}

Result<PythonEnvironmentRequest> read_python_environment(const std::string& name, const NamedValues& values) {
  GPUWARDEN_TRY(const auto cuda, read_option(values, "cuda", knowledge::read_version));
  if (!cuda) return values.refuse("an environment needs --cuda VERSION", "for example --cuda 12.4");
  GPUWARDEN_TRY(const auto maker,
                choice_option(values, "tool", maker_from, "value", "mamba, conda, micromamba, uv or venv"));
  return PythonEnvironmentRequest{name, *cuda, values.text("python"), values.list("with"), {}, maker};
}

Result<PythonEnvironmentPlan> plan_python_environment(const PythonEnvironmentRequest& wanted, Maker maker,
                                                      std::optional<Version> driver, const Knowledge& knowledge) {
  GPUWARDEN_CHECK(check(wanted, maker));
  PythonEnvironmentRequest request = wanted;
  PythonEnvironmentPlan plan;
  GPUWARDEN_CHECK(check_cuda(request.cuda, knowledge, plan.notes));
  const bool in_folder = !is_conda(maker) || request.name.contains('/');
  if (in_folder) {
    GPUWARDEN_TRY(plan.folder, folder_of(request));
    request.name = plan.folder->string();
  } else {
    plan.name = request.name;
  }
  plan.program = program_of(maker);
  const bool wants_torch = std::ranges::any_of(request.packages, is_torch);
  const auto* torch = wants_torch ? newest_torch(request.cuda, request.python, knowledge) : nullptr;
  if (wants_torch && torch == nullptr) return std::unexpected(no_torch(request, knowledge));
  std::string python = request.python.value_or("");
  if (python.empty() && torch != nullptr && maker != Maker::venv) python = to_string(torch->python_highest);
  const std::string selector = in_folder ? "--prefix" : "--name";
  const Words cuda = is_conda(maker) ? conda_packages(request.cuda, knowledge, plan.notes) : Words{};
  plan.commands = {first_command(request, maker, selector, python, cuda)};
  GPUWARDEN_TRY(const auto more, package_commands(request, pip_of(request, maker, selector), is_conda(maker), torch));
  plan.commands.insert(plan.commands.end(), more.begin(), more.end());
  plan.activation = is_conda(maker) ? fmt::format("{} activate {}", plan.program, quoted(Shell::bash, request.name))
                                    : fmt::format(". {}", quoted(Shell::bash, request.name + "/bin/activate"));
  const auto needed = knowledge.min_driver(request.cuda, false);
  if (driver && needed && *driver < *needed)
    plan.notes.push_back(fmt::format("programs of CUDA {} need driver {} or newer; {} is installed",
                                     to_string(request.cuda), to_string(*needed), to_string(*driver)));
  return plan;
}

Result<PythonEnvironmentPlan> plan_python_environment(const PythonEnvironmentRequest& wanted,
                                                      const Environment& variables, std::optional<Version> driver,
                                                      const Knowledge& knowledge) {
  const auto installed = installed_makers(variables);
  const Maker maker = wanted.maker.value_or(installed.empty() ? Maker::conda : installed.front());
  GPUWARDEN_TRY(auto plan, plan_python_environment(wanted, maker, driver, knowledge));
  plan.installed = std::ranges::find(installed, maker) != installed.end();
  if (!plan.installed) plan.instead = installed;
  return plan;
}

}  // namespace gpuwarden::toolkits
