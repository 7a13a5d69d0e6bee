// SPDX-License-Identifier: Apache-2.0
// Shared libraries in the loader's order, CUDA toolkits, host compilers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

namespace fs = std::filesystem;
using facts::Environment;
using facts::Library;
using facts::Toolkit;

struct Wanted {
  std::string_view file;  ///< the soname begins with this
  std::string_view name;  ///< as facts::Library has it
};

constexpr auto kWanted = std::to_array<Wanted>({{"libcuda.so.1", "libcuda.so.1"},
                                                {"libnvidia-ml.so.1", "libnvidia-ml.so.1"},
                                                {"libcudart.so.", "libcudart"},
                                                {"libcudnn.so.", "libcudnn"},
                                                {"libnccl.so.", "libnccl"},
                                                {"libnvinfer.so.", "libnvinfer"},
                                                {"libcublas.so.", "libcublas"}});

std::string origin_of(const std::string& path, std::string_view found_by) {
  if (path.contains("/compat/")) return "compat";
  if (path.contains("/stubs/")) return "stubs";
  if (path.contains("/wsl/")) return "wsl";
  return std::string(found_by);
}

void add_library(const Tree& tree, const std::string& path, std::string_view found_by, Environment& environment) {
  const std::string file = fs::path(path).filename();
  const auto* const wanted = std::ranges::find_if(kWanted, [&](const Wanted& one) {
    return one.file.ends_with('.') ? file.starts_with(one.file) : file == one.file;
  });
  if (wanted == kWanted.end()) return;
  const auto real = tree.resolve(path);
  if (!real) return;
  const bool known = std::ranges::any_of(environment.libraries, [&](const Library& one) { return one.path == *real; });
  if (known) return;
  Library library{std::string(wanted->name), version_of_library(real->filename().native()), real->string(),
                  origin_of(path, found_by)};
  environment.libraries.push_back(std::move(library));
}

void add_folder(const Tree& tree, const std::string& folder, std::string_view found_by, Environment& environment) {
  for (const std::string& name : tree.names(folder)) {
    if (name.starts_with("lib")) add_library(tree, folder + "/" + name, found_by, environment);
  }
}

std::uint32_t word_at(std::string_view text, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4 && at + i < text.size(); ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i])) << (8 * i);
  return value;
}

/// The paths in the loader's cache (format of glibc's ld.so.cache since 2.2: a header of 48 bytes behind the magic
/// "glibc-ld.so.cache1.1", entries of 24 bytes with flags, key and value; offsets count from the magic).
std::vector<std::string> paths_in_cache(std::string_view cache) {
  constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
  constexpr std::size_t kHeader = 48;
  constexpr std::size_t kEntry = 24;
  constexpr std::uint32_t kMostEntries = 100'000;
  std::vector<std::string> paths;
  const std::size_t begin = cache.find(kMagic);
  if (begin == std::string_view::npos) return paths;
  cache.remove_prefix(begin);
  const std::uint32_t count = std::min(word_at(cache, 20), kMostEntries);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t at = kHeader + i * kEntry;
    const std::size_t value = word_at(cache, at + 8);
    if (at + kEntry > cache.size() || value >= cache.size()) break;
    const std::size_t end = cache.find('\0', value);
    if (end == std::string_view::npos || end - value > 4096) continue;
    paths.emplace_back(cache.substr(value, end - value));
  }
  return paths;
}

/// "12.4.131" of version.json, "CUDA Version 10.2.89" of version.txt, or the number in the folder's name.
std::string toolkit_version(const Tree& tree, const std::string& folder) {
  if (const auto text = tree.read(folder + "/version.json")) {
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    for (const char* part : {"cuda_nvcc", "cuda", "cuda_cudart"}) {
      if (!json.is_object() || !json.contains(part) || !json[part].is_object()) continue;
      const auto version = json[part].find("version");
      if (version != json[part].end() && version->is_string()) return printable(version->get<std::string>());
    }
  }
  const std::string text = tree.line(folder + "/version.txt").value_or("");
  const std::size_t at = text.find("CUDA Version ");
  if (at != std::string::npos) return printable(trim(text.substr(at + 13)));
  const std::string name = fs::path(folder).filename();
  const std::size_t digit = name.find_first_of("0123456789");
  return digit == std::string::npos ? "" : name.substr(digit);
}

bool is_toolkit(const Tree& tree, const std::string& folder) {
  return tree.is_file(folder + "/bin/nvcc") || tree.is_file(folder + "/version.json") ||
         tree.is_file(folder + "/version.txt");
}

Toolkit* add_toolkit(const Tree& tree, const std::string& folder, std::string_view origin, Environment& environment) {
  const auto real = tree.resolve(folder);
  if (!real || !is_toolkit(tree, folder)) return nullptr;
  for (Toolkit& known : environment.toolkits) {
    if (known.path == *real) return &known;
  }
  Toolkit toolkit;
  toolkit.path = real->string();
  toolkit.version = toolkit_version(tree, toolkit.path);
  toolkit.origin = origin;
  if (tree.is_file(toolkit.path + "/bin/nvcc")) toolkit.nvcc = toolkit.path + "/bin/nvcc";
  if (toolkit.version.empty()) return nullptr;
  environment.toolkits.push_back(std::move(toolkit));
  return &environment.toolkits.back();
}

/// Debian's own package puts nvcc into /usr/bin and the rest into /usr/lib/nvidia-cuda-toolkit.
void add_packaged(const Scene& scene, Environment& environment) {
  if (!scene.tree.is_folder("/usr/lib/nvidia-cuda-toolkit")) return;
  const auto text = scene.run({"/usr/bin/nvcc", "--version"}, scene.request.deadline);
  const std::size_t at = text ? text->find(", V") : std::string::npos;
  if (at == std::string::npos) return;
  const std::string_view rest = std::string_view(*text).substr(at + 3, 24);
  Toolkit toolkit;
  toolkit.version = std::string(rest.substr(0, rest.find_first_not_of("0123456789.")));
  toolkit.path = "/usr/lib/nvidia-cuda-toolkit";
  toolkit.origin = "package";
  toolkit.nvcc = "/usr/bin/nvcc";
  environment.toolkits.push_back(std::move(toolkit));
}

/// The nvcc that PATH finds first makes its toolkit the active one.
void mark_active(const Scene& scene, Environment& environment) {
  const std::string path = scene.variable("PATH").value_or("");
  for (const auto folder : split(path, ':')) {
    const auto real = folder.empty() ? std::nullopt : scene.tree.resolve(std::string(folder) + "/nvcc");
    if (!real) continue;
    for (Toolkit& toolkit : environment.toolkits) {
      const bool mine = toolkit.nvcc && (scene.tree.resolve(*toolkit.nvcc) == real);
      if (mine) toolkit.active = true;
    }
    return;
  }
}

void read_architectures(const Scene& scene, Toolkit& toolkit) {
  if (!toolkit.nvcc) return;
  const auto text = scene.run({*toolkit.nvcc, "--list-gpu-code"}, scene.request.deadline);
  for (const auto line : split(text.value_or(""), '\n')) {
    const auto word = trim(line);
    if (word.starts_with("sm_")) toolkit.architectures.emplace_back(word);
  }
}

}  // namespace

std::optional<std::string> version_of_library(std::string_view file_name) {
  const std::size_t at = file_name.rfind(".so.");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view version = file_name.substr(at + 4);
  if (!version.contains('.') || version.find_first_not_of("0123456789.") != std::string_view::npos) return std::nullopt;
  return std::string(version);
}

void survey_libraries(const Scene& scene, Environment& environment) {
  const Tree& tree = scene.tree;
  const std::string path = scene.variable("LD_LIBRARY_PATH").value_or("");
  for (const auto folder : split(path, ':')) {
    if (folder.starts_with('/')) add_folder(tree, std::string(folder), "LD_LIBRARY_PATH", environment);
  }
  const auto cache = tree.read("/etc/ld.so.cache", std::size_t{16} << 20U);
  for (const std::string& file : cache ? paths_in_cache(*cache) : std::vector<std::string>{})
    add_library(tree, file, "ldconfig", environment);
  if (!cache) {
    for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"})
      add_folder(tree, folder, "ldconfig", environment);
  }
  add_folder(tree, "/usr/lib/wsl/lib", "wsl", environment);
  for (const Library& library : environment.libraries) {
    const bool of_driver = library.name == "libnvidia-ml.so.1" || library.name == "libcuda.so.1";
    if (of_driver && library.origin == "ldconfig" && library.version && !environment.driver.library_version)
      environment.driver.library_version = library.version;
  }
}

void survey_toolkits(const Scene& scene, Environment& environment) {
  const Tree& tree = scene.tree;
  for (const std::string& base : {std::string("/usr/local"), std::string("/opt"), std::string("/usr/lib")}) {
    for (const std::string& name : tree.names(base)) {
      if (name.starts_with("cuda")) add_toolkit(tree, base + "/" + name, base, environment);
    }
  }
  for (const std::string& version : tree.names("/opt/nvidia/hpc_sdk/Linux_x86_64"))
    for (const std::string& cuda : tree.names("/opt/nvidia/hpc_sdk/Linux_x86_64/" + version + "/cuda"))
      add_toolkit(tree, "/opt/nvidia/hpc_sdk/Linux_x86_64/" + version + "/cuda/" + cuda, "HPC SDK", environment);
  for (const char* name : {"CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"}) {
    const auto folder = scene.variable(name);
    const std::string_view origin = std::string_view(name) == "CONDA_PREFIX" ? "conda" : name;
    if (folder && folder->starts_with('/')) add_toolkit(tree, *folder, origin, environment);
  }
  add_packaged(scene, environment);
  const std::string path = scene.variable("PATH").value_or("");
  for (const auto folder : split(path, ':')) {
    if (folder.ends_with("/bin") && folder != "/usr/bin" && folder != "/bin")
      add_toolkit(tree, std::string(folder.substr(0, folder.size() - 4)), "PATH", environment);
  }
  mark_active(scene, environment);
  for (Toolkit& toolkit : environment.toolkits) {
    if (toolkit.active) read_architectures(scene, toolkit);
  }
}

void survey_compilers(const Scene& scene, Environment& environment) {
  const std::string path = scene.variable("PATH").value_or("/usr/bin:/bin");
  for (const std::string name : {"gcc", "g++", "clang"}) {
    for (const auto folder : split(path, ':')) {
      const auto real = folder.empty() ? std::nullopt : scene.tree.resolve(std::string(folder) + "/" + name);
      if (!real) continue;
      // "x86_64-linux-gnu-gcc-12": the file says its major version; the program itself says all of it.
      const auto text = scene.run({real->string(), "-dumpfullversion", "-dumpversion"}, scene.request.deadline);
      std::string version = text ? printable(trim(*text)) : "";
      const std::string file = real->filename();
      const std::size_t dash = file.rfind('-');
      if (version.empty() && dash != std::string::npos && parse_integer(file.substr(dash + 1)))
        version = file.substr(dash + 1);
      if (!version.empty()) environment.compilers.push_back({name, version, real->string()});
      break;
    }
  }
  // In an image nobody can be asked for a version, and a compiler without one is not listed.
  if (scene.tree.is_live()) environment.compilers_sought = true;
}

}  // namespace gpuwarden::probe
