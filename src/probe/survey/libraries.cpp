// SPDX-License-Identifier: Apache-2.0
// Shared libraries in the order in which the loader would find them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

namespace fs = std::filesystem;
using facts::Environment;
using facts::Library;

struct Wanted {
  std::string_view file;  ///< the soname begins with this
  std::string_view name;  ///< as facts::Library has it
  /// Where the file's name does not tell the version: a header beside the library, the beginning of its macros, and
  /// the beginning of the name of pip's or the distribution's package.
  std::array<std::string_view, 2> headers{};
  std::string_view macros;
  std::string_view pip;
  std::string_view package;
};

constexpr auto kWanted = std::to_array<Wanted>(
    {{"libcuda.so.1", "libcuda.so.1"},
     {"libnvidia-ml.so.1", "libnvidia-ml.so.1"},
     {"libcudart.so.", "libcudart", {}, "", "nvidia_cuda_runtime", ""},
     {"libcudnn.so.", "libcudnn", {"cudnn_version.h", "cudnn.h"}, "CUDNN", "nvidia_cudnn", "libcudnn*"},
     {"libnccl.so.", "libnccl", {"nccl.h"}, "NCCL", "nvidia_nccl", "libnccl2"},
     {"libnvinfer.so.", "libnvinfer", {"NvInferVersion.h"}, "NV_TENSORRT", "tensorrt", "libnvinfer*"},
     {"libcublas.so.", "libcublas", {"cublas_api.h"}, "CUBLAS_VER", "nvidia_cublas", ""}});

std::string origin_of(const std::string& path, std::string_view found_by) {
  if (path.contains("/compat/")) return "compat";
  if (path.contains("/stubs/")) return "stubs";
  if (path.contains("/wsl/")) return "wsl";
  return std::string(found_by);
}

std::optional<std::string> version_of_header(const Tree& tree, const fs::path& folder, const Wanted& wanted) {
  const fs::path base = folder.parent_path();
  const std::string machine = folder.filename();  // /usr/lib/x86_64-linux-gnu
  for (const fs::path& include :
       {base / "include", base.parent_path() / "include" / machine, base.parent_path() / "include"}) {
    for (const std::string_view header : wanted.headers) {
      const auto text = header.empty() ? std::nullopt : tree.read(include / header);
      if (!text) continue;
      if (auto version = version_in_header(*text, wanted.macros)) return version;
    }
  }
  return std::nullopt;
}

/// .../site-packages/nvidia/cudnn/lib/libcudnn.so.9: pip's metadata stand three folders up.
std::optional<std::string> version_of_pip(const Tree& tree, const fs::path& folder, const Wanted& wanted) {
  fs::path site = folder;
  for (int up = 0; up < 4 && site.filename() != "site-packages" && site.filename() != "dist-packages"; ++up)
    site = site.parent_path();
  if (!site.filename().native().ends_with("-packages") || wanted.pip.empty()) return std::nullopt;
  for (const std::string& name : tree.names(site)) {
    if (!name.starts_with(wanted.pip)) continue;
    if (auto info = of_dist_info(name)) return info->version;
  }
  return std::nullopt;
}

/// "2.21.5" of the package's "2.21.5-1+cuda12.4".
std::optional<std::string> version_of_package(const Scene& scene, const Wanted& wanted) {
  if (wanted.package.empty()) return std::nullopt;
  const auto package = scene.package({wanted.package});
  if (!package) return std::nullopt;
  const std::string version = package->version.substr(package->version.find(':') + 1);
  return version.substr(0, version.find('-'));
}

/// The library's own version, from its file's name, then from what lies around it.
std::optional<std::string> version_of(const Scene& scene, const fs::path& real, const Wanted& wanted) {
  constexpr std::size_t kLongestSentence = 128;
  const fs::path folder = real.parent_path();
  const std::string& path = real.native();
  if (auto version = version_of_library(real.filename().native())) return version;
  if (auto version = version_of_pip(scene.tree, folder, wanted)) return version;
  if (auto version = version_of_header(scene.tree, folder, wanted)) return version;
  if (path.starts_with("/usr/lib/") || path.starts_with("/lib")) {
    if (auto version = version_of_package(scene, wanted)) return version;
  }
  if (wanted.name != "libnccl") return std::nullopt;
  std::optional<std::string> found;
  scene.tree.scan(real, kLongestSentence, [&](std::string_view block) {
    found = version_in_nccl_library(block);
    return !found;
  });
  return found;
}

void add_library(const Scene& scene, const std::string& path, std::string_view found_by, Environment& environment) {
  const std::string file = fs::path(path).filename();
  const auto* const wanted = std::ranges::find_if(kWanted, [&](const Wanted& one) {
    return one.file.ends_with('.') ? file.starts_with(one.file) : file == one.file;
  });
  if (wanted == kWanted.end()) return;
  const auto real = scene.tree.resolve(path);
  if (!real || !scene.tree.is_file(*real)) return;
  const bool known = std::ranges::any_of(environment.libraries, [&](const Library& one) { return one.path == *real; });
  if (known) return;
  environment.libraries.push_back(
      {std::string(wanted->name), version_of(scene, *real, *wanted), real->string(), origin_of(path, found_by)});
}

void add_folder(const Scene& scene, const std::string& folder, std::string_view found_by, Environment& environment) {
  for (const std::string& name : scene.tree.names(folder)) {
    if (name.starts_with("lib")) add_library(scene, folder + "/" + name, found_by, environment);
  }
}

/// The folders of /etc/ld.so.conf and of the files it includes, in their order.
std::vector<std::string> configured_folders(const Tree& tree) {
  std::vector<std::string> folders;
  const auto read = [&](const std::string& path) {
    const std::string text = tree.read(path).value_or("");
    for (const auto line : split(text, '\n')) {
      const std::string_view folder = trim(line.substr(0, line.find('#')));
      if (folder.starts_with('/')) folders.emplace_back(folder);
    }
  };
  // Every distribution includes this folder and nothing else.
  for (const std::string& name : tree.names("/etc/ld.so.conf.d")) {
    if (name.ends_with(".conf")) read("/etc/ld.so.conf.d/" + name);
  }
  read("/etc/ld.so.conf");
  for (const char* folder : {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
                             "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"})
    folders.emplace_back(folder);
  return folders;
}

}  // namespace

void survey_libraries(const Scene& scene, Environment& environment) {
  const Tree& tree = scene.tree;
  for (const std::string& folder : scene.folders("LD_LIBRARY_PATH"))
    add_folder(scene, folder, "LD_LIBRARY_PATH", environment);
  const std::string cache = tree.read("/etc/ld.so.cache", std::size_t{16} << 20U).value_or("");
  const auto cached = paths_in_loader_cache(cache);
  for (const std::string& file : cached) add_library(scene, file, "ldconfig", environment);
  if (cached.empty()) {
    for (const std::string& folder : configured_folders(tree)) add_folder(scene, folder, "ldconfig", environment);
  }
  add_folder(scene, "/usr/lib/wsl/lib", "wsl", environment);
  for (const Library& library : environment.libraries) {
    const bool of_driver = library.name == "libnvidia-ml.so.1" || library.name == "libcuda.so.1";
    if (of_driver && library.origin == "ldconfig" && library.version && !environment.driver.library_version)
      environment.driver.library_version = library.version;
  }
}

}  // namespace gpuwarden::probe
