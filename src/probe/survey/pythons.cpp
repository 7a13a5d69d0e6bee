// SPDX-License-Identifier: Apache-2.0
// Python environments, from what pip and conda wrote when they installed; a Python is started only when asked for.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/probes.hpp"
#include "probe/survey/python_packages.hpp"

namespace gpuwarden::probe {

namespace {

using facts::Environment;
using facts::PythonEnvironment;

/// pyvenv.cfg: the version, who made it, and whether the system's packages are seen too.
struct VenvSettings {
  std::optional<std::string> version;
  bool by_uv = false;
  bool with_system = false;
};

VenvSettings read_settings(const Tree& tree, const std::string& prefix) {
  VenvSettings settings;
  const std::string text = tree.read(prefix + "/pyvenv.cfg", 8192).value_or("");
  for (const auto line : split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = trim(line.substr(0, equals));
    const std::string_view value = trim(line.substr(equals + 1));
    if (key == "version" || key == "version_info") settings.version = printable(value);
    if (key == "uv") settings.by_uv = true;
    if (key == "include-system-site-packages") settings.with_system = to_lower(value) == "true";
  }
  return settings;
}

/// lib/python3.X of a prefix, newest first.
std::vector<std::string> python_folders(const Tree& tree, const std::string& lib) {
  std::vector<std::string> folders;
  for (const std::string& name : tree.names(lib)) {
    if (name.starts_with("python3.") && parse_integer(name.substr(8))) folders.push_back(name);
  }
  std::ranges::sort(folders, std::greater{},
                    [](const std::string& name) { return parse_integer(name.substr(8)).value_or(0); });
  return folders;
}

/// "python3.11": what /usr/bin/python3 is a link to; else the newest that has a library.
std::string release_of(const Tree& tree, const std::string& prefix) {
  const auto program = tree.resolve(prefix + "/bin/python3");
  std::string name = program ? program->filename().string() : "";
  if (name.starts_with("python3.") && parse_integer(name.substr(8))) return name;
  const auto folders = python_folders(tree, prefix + "/lib");
  return folders.empty() ? "" : folders.front();
}

class Finder {
 public:
  Finder(const Scene& scene, Environment& environment)
      : scene_(scene), tree_(scene.tree), environment_(environment), home_(scene.home()) {}

  void find_all() {
    if (const auto active = scene_.variable("VIRTUAL_ENV")) add(*active, "venv", true);
    if (const auto active = scene_.variable("CONDA_PREFIX")) add(*active, "conda", environment_.pythons.empty());
    if (environment_.pythons.empty()) add_first_on_path();
    add_system("/usr");
    add_system("/usr/local");
    const std::string here = scene_.request.working_directory.string();
    for (const std::string& folder :
         {here + "/.venv", here + "/venv", here + "/env", home_ + "/.venv", home_ + "/venv", home_ + "/env",
          std::string("/opt/venv"), std::string("/workspace/venv"), std::string("/venv"), std::string("/app/.venv")})
      add(folder, "venv", false);
    for (const char* folder : {"/.virtualenvs", "/venvs", "/envs", "/.venvs", "/.local/share/virtualenvs",
                               "/.cache/pypoetry/virtualenvs", "/.local/pipx/venvs", "/.local/share/pipx/venvs"})
      add_each(home_ + folder, "venv");
    add_each(home_ + "/.pyenv/versions", "pyenv");
    add_each(home_ + "/.local/share/uv/tools", "uv");
    add_each(home_ + "/.local/share/uv/python", "uv");
    add_each(here + "/.pixi/envs", "conda");
    for (const char* name : {"miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", "conda"}) {
      for (const std::string& base : {home_ + "/", std::string("/opt/"), std::string("/usr/local/")})
        add_conda_installation(base + name);
    }
    add_each(home_ + "/.conda/envs", "conda");
    const std::string listed = tree_.read(home_ + "/.conda/environments.txt").value_or("");
    for (const auto line : split(listed, '\n')) {
      if (line.starts_with('/')) add(std::string(trim(line)), "conda", false);
    }
  }

 private:
  /// A machine with more than this is a cluster's file server.
  static constexpr std::size_t kMost = 64;

  void add(const std::string& prefix, std::string_view kind, bool active) {
    if (!prefix.starts_with('/')) return;
    const auto real = tree_.resolve(prefix);
    if (!real || *real == "/usr" || *real == "/" || environment_.pythons.size() >= kMost) return;
    if (!seen_.insert(real->string()).second) return;
    const bool conda = tree_.is_folder(prefix + "/conda-meta");
    if (!conda && !tree_.is_file(prefix + "/pyvenv.cfg") && !tree_.exists(prefix + "/bin/python3")) return;
    const VenvSettings settings = read_settings(tree_, prefix);
    PythonEnvironment python;
    python.path = prefix;
    python.kind = conda ? "conda" : settings.by_uv ? "uv" : std::string(kind);
    python.active = active;
    python.version = settings.version;
    if (conda) read_conda(tree_, prefix, python);
    for (const std::string& folder : python_folders(tree_, prefix + "/lib")) {
      if (!python.version) python.version = folder.substr(6);
      read_site(tree_, fmt::format("{}/lib/{}/site-packages", prefix, folder), python);
      if (settings.with_system) read_system_sites("/usr", folder, python);
    }
    if (!python.packages.empty() || active) environment_.pythons.push_back(std::move(python));
  }

  void add_each(const std::string& folder, std::string_view kind) {
    for (const std::string& name : tree_.names(folder)) add(fmt::format("{}/{}", folder, name), kind, false);
  }

  void add_conda_installation(const std::string& base) {
    add(base, "conda", false);
    add_each(base + "/envs", "conda");
  }

  /// The Python that a shell would start: the folder counts, for a venv's own program is a link to another's.
  void add_first_on_path() {
    for (const std::string& folder : scene_.folders("PATH")) {
      if (!tree_.exists(folder + "/python3") && !tree_.exists(folder + "/python")) continue;
      if (folder.ends_with("/.pyenv/shims")) return add_of_pyenv();
      if (folder.ends_with("/bin")) first_prefix_ = folder.substr(0, folder.size() - 4);
      add(first_prefix_, "python", true);
      return;
    }
  }

  /// pyenv's shims start the version that PYENV_VERSION or its file names.
  void add_of_pyenv() {
    const std::string root = scene_.variable("PYENV_ROOT").value_or(home_ + "/.pyenv");
    std::string version = scene_.variable("PYENV_VERSION").value_or(tree_.line(root + "/version").value_or("system"));
    version = version.substr(0, version.find(':'));
    if (version == "system") return;
    first_prefix_ = root + "/versions/" + version;
    add(first_prefix_, "pyenv", true);
  }

  /// Debian keeps packages in dist-packages, of /usr/lib/python3 for all releases; pip's for all users go to
  /// /usr/local, those of one to ~/.local.
  void read_system_sites(const std::string& prefix, const std::string& folder, PythonEnvironment& python) {
    if (prefix == "/usr") read_site(tree_, home_ + "/.local/lib/" + folder + "/site-packages", python);
    for (const char* lib : {"/usr/local/lib/", "/usr/lib/", "/usr/lib64/"}) {
      if (prefix == "/usr/local" && lib != std::string_view("/usr/local/lib/")) continue;
      for (const char* site : {"/site-packages", "/dist-packages"}) read_site(tree_, lib + folder + site, python);
    }
    if (prefix == "/usr") read_site(tree_, "/usr/lib/python3/dist-packages", python);
  }

  /// The distribution's Python; and one in /usr/local, as images of Docker's library have it.
  void add_system(const std::string& prefix) {
    const auto program = tree_.resolve(prefix + "/bin/python3");
    const bool own = program && program->native().starts_with(prefix + "/bin/");
    if (prefix == "/usr/local" && (!own || !seen_.insert(prefix).second)) return;
    const std::string folder = release_of(tree_, prefix);
    if (folder.empty()) return;
    PythonEnvironment python;
    python.path = prefix;
    python.kind = "system";
    python.version = folder.substr(6);
    python.active = environment_.pythons.empty() && (first_prefix_.empty() || first_prefix_ == prefix);
    read_system_sites(prefix, folder, python);
    if (!python.packages.empty()) environment_.pythons.push_back(std::move(python));
  }

  const Scene& scene_;
  const Tree& tree_;
  Environment& environment_;
  std::string home_;
  std::string first_prefix_;
  std::set<std::string> seen_;
};

}  // namespace

void survey_pythons(const Scene& scene, Environment& environment) { Finder(scene, environment).find_all(); }

}  // namespace gpuwarden::probe
