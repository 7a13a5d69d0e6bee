// SPDX-License-Identifier: Apache-2.0
// CUDA toolkits and host compilers.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

namespace fs = std::filesystem;
using facts::Environment;
using facts::Toolkit;

/// "12.4.131" of what conda wrote when it installed nvcc.
std::optional<std::string> version_of_conda(const Tree& tree, const std::string& folder) {
  for (const std::string& name : tree.names(folder + "/conda-meta")) {
    if (!name.starts_with("cuda-nvcc") && !name.starts_with("cudatoolkit-dev-")) continue;
    if (const auto info = of_conda_meta(name)) return info->version;
  }
  return std::nullopt;
}

/// Of its version file, what conda says, its header, or the number in the folder's name ("cuda-12.4", HPC SDK: "12.4").
std::string toolkit_version(const Tree& tree, const std::string& folder) {
  constexpr std::string_view kLabel = "CUDA Version ";
  if (const auto text = tree.read(folder + "/version.json")) {
    if (auto version = version_in_toolkit_json(*text)) return *version;
  }
  const std::string text = tree.line(folder + "/version.txt").value_or("");
  if (const std::size_t at = text.find(kLabel); at != std::string::npos)
    return printable(trim(text.substr(at + kLabel.size())));
  if (auto version = version_of_conda(tree, folder)) return *version;
  for (const char* include : {"/include/cuda.h", "/targets/x86_64-linux/include/cuda.h",
                              "/targets/sbsa-linux/include/cuda.h", "/targets/aarch64-linux/include/cuda.h"}) {
    const auto header = tree.read(folder + include);
    if (auto version = header ? version_in_cuda_header(*header) : std::nullopt) return *version;
  }
  std::string name = fs::path(folder).filename();
  if (name.starts_with("cuda-")) name.erase(0, 5);
  return name.find_first_not_of("0123456789.") == std::string::npos && name.contains('.') ? name : "";
}

bool is_toolkit(const Tree& tree, const std::string& folder) {
  return tree.is_file(folder + "/bin/nvcc") || tree.is_file(folder + "/version.json") ||
         tree.is_file(folder + "/version.txt");
}

void add_toolkit(const Tree& tree, const std::string& folder, std::string_view origin, Environment& environment) {
  const auto real = tree.resolve(folder);
  if (!real || *real == "/usr" || !is_toolkit(tree, folder)) return;
  const bool known = std::ranges::any_of(environment.toolkits, [&](const Toolkit& one) { return one.path == *real; });
  if (known) return;
  Toolkit toolkit;
  toolkit.path = real->string();
  toolkit.version = toolkit_version(tree, toolkit.path);
  toolkit.origin = origin;
  if (tree.is_file(toolkit.path + "/bin/nvcc")) toolkit.nvcc = toolkit.path + "/bin/nvcc";
  for (const char* part : {"/lib64", "/targets/x86_64-linux/lib", "/targets/sbsa-linux/lib", "/lib"}) {
    if (!tree.is_folder(toolkit.path + part)) continue;
    toolkit.libraries = toolkit.path + part;
    break;
  }
  if (!toolkit.version.empty()) environment.toolkits.push_back(std::move(toolkit));
}

/// The distribution's own package puts nvcc into /usr/bin and the rest below /usr/lib and /usr/include.
void add_packaged(const Scene& scene, Environment& environment) {
  const Tree& tree = scene.tree;
  const auto nvcc = tree.resolve("/usr/bin/nvcc");
  const bool own = nvcc && (nvcc->parent_path() == "/usr/bin" || nvcc->native().contains("/nvidia-cuda-toolkit/"));
  if (!own) return;
  Toolkit toolkit;
  toolkit.path = tree.is_folder("/usr/lib/cuda") ? "/usr/lib/cuda" : "/usr";
  toolkit.origin = "package";
  toolkit.nvcc = "/usr/bin/nvcc";
  const auto known = std::ranges::find(environment.toolkits, toolkit.path, &Toolkit::path);
  if (known != environment.toolkits.end()) {
    known->origin = toolkit.origin;
    known->nvcc = toolkit.nvcc;
    return;
  }
  if (const auto text = scene.output_of({"/usr/bin/nvcc", "--version"}))
    toolkit.version = version_in_nvcc_output(*text).value_or("");
  const std::string header = tree.read("/usr/include/cuda.h").value_or("");
  if (toolkit.version.empty()) toolkit.version = version_in_cuda_header(header).value_or("");
  if (!toolkit.version.empty()) environment.toolkits.push_back(std::move(toolkit));
}

void add_hpc_sdk(const Tree& tree, Environment& environment) {
  for (const char* machine : {"Linux_x86_64", "Linux_aarch64"}) {
    const std::string base = fmt::format("/opt/nvidia/hpc_sdk/{}/", machine);
    for (const std::string& release : tree.names(base)) {
      for (const std::string& cuda : tree.names(base + release + "/cuda"))
        add_toolkit(tree, base + release + "/cuda/" + cuda, "HPC SDK", environment);
    }
  }
}

/// Of conda's environments and of what pip put into Pythons: nvidia/cuda_nvcc (CUDA 12), nvidia/cu13.
void add_of_pythons(const Tree& tree, Environment& environment) {
  for (const facts::PythonEnvironment& python : environment.pythons) {
    if (python.kind == "conda") add_toolkit(tree, python.path, "conda", environment);
    const auto has_nvcc = [](const facts::PythonPackage& package) {
      return package.name.starts_with("nvidia-cuda-nvcc");
    };
    const auto package = std::ranges::find_if(python.packages, has_nvcc);
    if (package == python.packages.end()) continue;
    for (const std::string& lib : tree.names(python.path + "/lib")) {
      const std::string base = python.path + "/lib/" + lib + "/site-packages/nvidia/";
      if (!lib.starts_with("python3.")) continue;
      for (const std::string& part : tree.names(base)) {
        const std::size_t before = environment.toolkits.size();
        if (part == "cuda_nvcc" || part.starts_with("cu1")) add_toolkit(tree, base + part, "pip", environment);
        if (environment.toolkits.size() > before) environment.toolkits.back().version = package->version;
      }
    }
  }
}

/// Environment modules: a loaded one has put its folder into PATH; here those that could be loaded are found by the
/// folders where clusters keep them.
void add_of_modules(const Tree& tree, Environment& environment) {
  for (const std::string base : {"/opt/ohpc/pub/apps/cuda", "/apps/cuda", "/sw/cuda", "/software/cuda",
                                 "/cm/shared/apps", "/opt/apps/cuda", "/opt/nvidia/cuda"}) {
    for (const std::string& name : tree.names(base)) {
      const bool own = base.ends_with("/cuda") || name.starts_with("cuda");
      if (own) add_toolkit(tree, base + "/" + name, "module", environment);
      // Bright: /cm/shared/apps/cuda12.4/toolkit/12.4.1
      const std::string toolkits = base + "/" + name + "/toolkit";
      if (!own) continue;
      for (const std::string& version : tree.names(toolkits))
        add_toolkit(tree, toolkits + "/" + version, "module", environment);
    }
  }
}

/// The nvcc that PATH finds first makes its toolkit the active one.
Toolkit* mark_active(const Scene& scene, Environment& environment) {
  for (const std::string& folder : scene.folders("PATH")) {
    const auto real = scene.tree.resolve(folder + "/nvcc");
    if (!real) continue;
    for (Toolkit& toolkit : environment.toolkits) {
      if (!toolkit.nvcc || scene.tree.resolve(*toolkit.nvcc) != real) continue;
      toolkit.active = true;
      return &toolkit;
    }
    return nullptr;
  }
  return nullptr;
}

void note_name(const Tree& tree, const std::string& path, std::string_view name, Environment& environment) {
  const auto real = path.starts_with('/') ? tree.resolve(path) : std::nullopt;
  if (!real) return;
  for (Toolkit& toolkit : environment.toolkits) {
    if (*real == toolkit.path) toolkit.named_by.emplace_back(name);
  }
}

/// Of several toolkits on the library path the loader takes the first.
void note_library_path(const Scene& scene, Environment& environment) {
  for (const std::string& folder : scene.folders("LD_LIBRARY_PATH")) {
    const auto real = scene.tree.resolve(folder);
    const auto owner = std::ranges::find_if(environment.toolkits, [&](const Toolkit& toolkit) {
      // The distribution's toolkit has the system's folders; that they are on the path says nothing.
      return real && toolkit.origin != "package" && real->native().starts_with(toolkit.path + "/");
    });
    if (owner == environment.toolkits.end()) continue;
    owner->named_by.emplace_back("LD_LIBRARY_PATH");
    return;
  }
}

void note_names(const Scene& scene, Environment& environment) {
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    note_name(scene.tree, scene.variable(name).value_or(""), name, environment);
  note_library_path(scene, environment);
  note_name(scene.tree, "/usr/local/cuda", "/usr/local/cuda", environment);
  note_name(scene.tree, "/etc/alternatives/cuda", "update-alternatives", environment);
}

/// "sm_90" before "sm_90a" before "sm_100"; nvcc does not list them in order.
std::pair<std::int64_t, std::string> rank_of(const std::string& architecture) {
  const std::size_t begin = architecture.find('_') + 1;
  const std::size_t end = std::min(architecture.find_first_not_of("0123456789", begin), architecture.size());
  return {parse_integer(architecture.substr(begin, end - begin)).value_or(0), architecture.substr(end)};
}

void ask_nvcc(const Scene& scene, Toolkit& toolkit, Environment& environment) {
  const auto text = scene.run({.argv = {*toolkit.nvcc, "--list-gpu-code"}, .deadline = scene.request.deadline});
  if (!text) return note_failure(environment, *toolkit.nvcc + " --list-gpu-code", text.error());
  for (const auto line : split(*text, '\n')) {
    const auto word = trim(line);
    if (word.starts_with("sm_")) toolkit.architectures.push_back(printable(word));
  }
  std::ranges::stable_sort(toolkit.architectures, {}, rank_of);
  if (std::ranges::count(toolkit.version, '.') >= 2) return;
  const auto version = scene.output_of({*toolkit.nvcc, "--version"});
  if (version) toolkit.version = version_in_nvcc_output(*version).value_or(toolkit.version);
}

/// The version that the program tells; else its major version, which Debian's file name has
/// ("x86_64-linux-gnu-gcc-12").
std::string compiler_version(const Scene& scene, const fs::path& real, Environment& environment) {
  const auto text =
      scene.run({.argv = {real.string(), "-dumpfullversion", "-dumpversion"}, .deadline = scene.request.deadline});
  if (text && !trim(*text).empty()) return printable(trim(*text));
  if (!text) note_failure(environment, real.string(), text.error());
  const std::string file = real.filename();
  const std::size_t dash = file.rfind('-');
  const bool numbered = dash != std::string::npos && parse_integer(file.substr(dash + 1));
  return numbered ? file.substr(dash + 1) : "";
}

}  // namespace

void survey_toolkits(const Scene& scene, Environment& environment) {
  const Tree& tree = scene.tree;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    const auto folder = scene.variable(name);
    if (folder && folder->starts_with('/')) add_toolkit(tree, *folder, name, environment);
  }
  for (const std::string base : {"/usr/local", "/opt", "/usr/lib"}) {
    for (const std::string& name : tree.names(base)) {
      if (name.starts_with("cuda")) add_toolkit(tree, base + "/" + name, base, environment);
    }
  }
  add_hpc_sdk(tree, environment);
  add_of_pythons(tree, environment);
  add_packaged(scene, environment);
  add_of_modules(tree, environment);
  for (const std::string& folder : scene.folders("PATH")) {
    if (folder.ends_with("/bin") && folder != "/bin")
      add_toolkit(tree, folder.substr(0, folder.size() - 4), "PATH", environment);
  }
  note_names(scene, environment);
  if (Toolkit* active = mark_active(scene, environment)) ask_nvcc(scene, *active, environment);
}

void survey_compilers(const Scene& scene, Environment& environment) {
  auto folders = scene.folders("PATH");
  if (folders.empty()) folders = {"/usr/bin", "/bin"};
  for (const std::string name : {"gcc", "g++", "clang"}) {
    for (const std::string& folder : folders) {
      const auto real = scene.tree.resolve(folder + "/" + name);
      if (!real || !scene.tree.is_file(*real)) continue;
      const std::string version = compiler_version(scene, *real, environment);
      if (!version.empty()) environment.compilers.push_back({name, version, real->string()});
      break;
    }
  }
  // In an image nobody can be asked for a version, and a compiler without one is not listed.
  if (scene.tree.is_live()) environment.compilers_sought = true;
}

}  // namespace gpuwarden::probe
