// SPDX-License-Identifier: Apache-2.0
// Python environments, from what pip and conda wrote when they installed; a Python is started only when asked for.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

using facts::Environment;
using facts::PythonEnvironment;
using Json = nlohmann::json;

/// Packages that matter to GPU software, by their normalised names; a last '*' stands for any ending.
constexpr auto kPackages = std::to_array<std::string_view>({"torch",
                                                            "torchvision",
                                                            "torchaudio",
                                                            "torchao",
                                                            "vllm",
                                                            "sglang",
                                                            "sgl-kernel",
                                                            "flashinfer*",
                                                            "tensorflow*",
                                                            "jax",
                                                            "jaxlib",
                                                            "jax-cuda*",
                                                            "flash-attn*",
                                                            "triton*",
                                                            "xformers",
                                                            "bitsandbytes",
                                                            "deepspeed",
                                                            "transformers",
                                                            "accelerate",
                                                            "peft",
                                                            "numpy",
                                                            "nvidia-*",
                                                            "cupy*",
                                                            "onnxruntime*",
                                                            "tensorrt*",
                                                            "llama-cpp-python",
                                                            "xgrammar",
                                                            "apex",
                                                            "megatron*",
                                                            "transformer-engine*",
                                                            "ray",
                                                            "lightning",
                                                            "pytorch-lightning",
                                                            "pynvml",
                                                            "cuda-python",
                                                            "cudf*",
                                                            "numba*"});

bool matters(std::string_view name) {
  return std::ranges::any_of(kPackages, [&](std::string_view wanted) {
    return wanted.ends_with('*') ? name.starts_with(wanted.substr(0, wanted.size() - 1)) : name == wanted;
  });
}

std::string normalised(std::string_view name) {
  std::string result = to_lower(name);
  std::ranges::replace_if(result, [](char c) { return c == '_' || c == '.'; }, '-');
  return result;
}

void add_package(PythonEnvironment& python, std::string_view name, std::string_view version, std::string_view manager) {
  const std::string normal = normalised(name);
  if (!matters(normal) || version.empty() || facts::find_package(python, normal) != nullptr) return;
  python.packages.push_back({normal, printable(version), std::string(manager)});
}

/// The value of "cuda: Optional[str] = '12.4'" or "cuda = None" in torch/version.py.
std::optional<std::string> assigned(std::string_view text, std::string_view name) {
  for (const auto line : split(text, '\n')) {
    if (!line.starts_with(name) || line.substr(name.size()).find_first_of(":= ") != 0) continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    std::string_view value = trim(line.substr(equals + 1));
    if (value == "None") return "";
    if (value.size() >= 2 && (value[0] == '\'' || value[0] == '"')) return printable(value.substr(1, value.size() - 2));
  }
  return std::nullopt;
}

void read_torch(const Tree& tree, const std::string& site, PythonEnvironment& python) {
  const auto text = tree.read(site + "/torch/version.py", 16384);
  if (!text) return;
  const auto cuda = assigned(*text, "cuda");
  const auto hip = assigned(*text, "hip");
  if (hip && !hip->empty()) python.torch_rocm = *hip;
  if (cuda) python.torch_cuda = *cuda;
  const auto version = assigned(*text, "__version__");
  if (!version || version->empty()) return;
  for (auto& package : python.packages) {
    if (package.name == "torch") package.version = *version;  // with its local part, which the folder's name may lack
  }
}

/// site-packages: the folders NAME-VERSION.dist-info.
void read_site(const Tree& tree, const std::string& site, PythonEnvironment& python) {
  for (const std::string& name : tree.names(site)) {
    const bool info = name.ends_with(".dist-info");
    if (!info && !name.ends_with(".egg-info")) continue;
    const std::string_view stem = std::string_view(name).substr(0, name.size() - (info ? 10 : 9));
    const std::size_t dash = stem.find('-');
    if (dash == std::string_view::npos) continue;
    std::string_view version = stem.substr(dash + 1);
    if (!info) version = version.substr(0, version.find("-py"));
    add_package(python, stem.substr(0, dash), version, "pip");
  }
  read_torch(tree, site, python);
}

/// conda-meta/NAME-VERSION-BUILD.json. conda's own PyTorch is called "pytorch"; its build tells CUDA.
void read_conda(const Tree& tree, const std::string& prefix, PythonEnvironment& python) {
  for (const std::string& name : tree.names(prefix + "/conda-meta")) {
    if (!name.ends_with(".json")) continue;
    const std::string_view stem = std::string_view(name).substr(0, name.size() - 5);
    const std::size_t build = stem.rfind('-');
    const std::size_t version = build == std::string_view::npos ? build : stem.rfind('-', build - 1);
    if (version == std::string_view::npos || version == 0) continue;
    const std::string_view number = stem.substr(version + 1, build - version - 1);
    std::string_view package = stem.substr(0, version);
    if (package == "python" && !python.version) python.version = std::string(number);
    if (package == "pytorch") {
      package = "torch";
      const std::string_view text = stem.substr(build + 1);
      const std::size_t cuda = text.find("cuda");
      if (cuda != std::string_view::npos && !python.torch_cuda) {
        std::string release(text.substr(cuda + 4, text.find('_', cuda) - cuda - 4));
        if (!release.contains('.') && release.size() == 3) release.insert(2, ".");  // conda-forge: cuda126
        python.torch_cuda = release;
      } else if (text.contains("cpu")) {
        python.torch_cuda = "";
      }
    }
    add_package(python, package, number, "conda");
  }
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

class Finder {
 public:
  Finder(const Scene& scene, Environment& environment) : scene_(scene), environment_(environment) {}

  void find_all() {
    if (const auto active = scene_.variable("VIRTUAL_ENV")) add(*active, "venv", true);
    if (const auto active = scene_.variable("CONDA_PREFIX")) add(*active, "conda", environment_.pythons.empty());
    add_system();
    const std::string home = scene_.home();
    const std::string here = scene_.request.working_directory.string();
    for (const std::string& folder : {here + "/.venv", here + "/venv", home + "/.venv", home + "/venv", home + "/env",
                                      std::string("/opt/venv"), std::string("/workspace/venv"), std::string("/venv")})
      add(folder, "venv", false);
    for (const std::string& folder :
         {home + "/.virtualenvs", home + "/venvs", home + "/envs", home + "/.pyenv/versions"})
      add_each(folder, "venv");
    for (const std::string& base :
         {home + "/miniconda3", home + "/anaconda3", home + "/miniforge3", home + "/mambaforge", home + "/micromamba",
          std::string("/opt/conda"), std::string("/opt/miniconda3"), std::string("/opt/miniforge3"),
          std::string("/opt/anaconda3")}) {
      add(base, "conda", false);
      add_each(base + "/envs", "conda");
    }
    const std::string listed = scene_.tree.read(home + "/.conda/environments.txt").value_or("");
    for (const auto line : split(listed, '\n')) {
      if (line.starts_with('/')) add(std::string(trim(line)), "conda", false);
    }
  }

 private:
  /// A machine with more than this is a cluster's file server.
  static constexpr std::size_t kMost = 64;

  void add(const std::string& prefix, std::string_view kind, bool active) {
    const auto real = scene_.tree.resolve(prefix);
    if (!real || !seen_.insert(real->string()).second || environment_.pythons.size() >= kMost) return;
    const Tree& tree = scene_.tree;
    const bool conda = tree.is_folder(prefix + "/conda-meta");
    if (!conda && !tree.is_file(prefix + "/pyvenv.cfg") && !tree.exists(prefix + "/bin/python3")) return;
    PythonEnvironment python;
    python.path = prefix;
    python.kind = conda ? "conda" : std::string(kind);
    python.active = active;
    const std::string settings = tree.read(prefix + "/pyvenv.cfg", 8192).value_or("");
    for (const auto line : split(settings, '\n')) {
      const std::size_t equals = line.find('=');
      const std::string_view key = trim(line.substr(0, equals));
      if (equals == std::string_view::npos) continue;
      if (key == "version" || key == "version_info") python.version = printable(trim(line.substr(equals + 1)));
      if (key == "uv") python.kind = "uv";
    }
    if (conda) read_conda(tree, prefix, python);
    for (const std::string& folder : python_folders(tree, prefix + "/lib")) {
      if (!python.version) python.version = folder.substr(6);
      read_site(tree, prefix + "/lib/" + folder + "/site-packages", python);
    }
    if (!python.packages.empty() || active) environment_.pythons.push_back(std::move(python));
  }

  void add_each(const std::string& folder, std::string_view kind) {
    for (const std::string& name : scene_.tree.names(folder)) add(folder + "/" + name, kind, false);
  }

  /// The distribution's Python, with what was installed for all users and for this one.
  void add_system() {
    const Tree& tree = scene_.tree;
    PythonEnvironment python;
    python.path = "/usr";
    python.kind = "system";
    python.active = environment_.pythons.empty();
    for (const std::string& lib :
         {scene_.home() + "/.local/lib", std::string("/usr/local/lib"), std::string("/usr/lib")}) {
      for (const std::string& folder : python_folders(tree, lib)) {
        if (lib == "/usr/lib" && !python.version) python.version = folder.substr(6);
        for (const char* site : {"/site-packages", "/dist-packages"})
          read_site(tree, lib + "/" + folder + site, python);
      }
    }
    read_site(tree, "/usr/lib/python3/dist-packages", python);
    if (!python.packages.empty()) environment_.pythons.push_back(std::move(python));
  }

  const Scene& scene_;
  Environment& environment_;
  std::set<std::string> seen_;
};

constexpr const char* kQuestion =
    "import json, torch\n"
    "print(json.dumps({'arch': torch.cuda.get_arch_list(), 'available': torch.cuda.is_available(),"
    " 'debug': torch.version.debug, 'cudnn': torch.backends.cudnn.version(),"
    " 'nccl': '.'.join(map(str, torch.cuda.nccl.version())) if torch.version.cuda and "
    "torch.distributed.is_nccl_available() else None}))\n";

void ask(const Scene& scene, PythonEnvironment& python) {
  const std::string program = python.kind == "system" ? "/usr/bin/python3" : python.path + "/bin/python3";
  const auto text = scene.run({program, "-c", kQuestion}, scene.request.deadline);
  const auto answer =
      text ? Json::parse(text->substr(std::min(text->find('{'), text->size())), nullptr, false) : Json();
  if (!answer.is_object()) {
    python.problem = "it did not answer in time, or could not import torch";
    return;
  }
  for (const auto& entry : answer.value("arch", Json::array()))
    if (entry.is_string()) python.torch_architectures.push_back(entry.get<std::string>());
  if (answer["available"].is_boolean()) python.cuda_available = answer["available"].get<bool>();
  if (answer["debug"].is_boolean()) python.torch_debug = answer["debug"].get<bool>();
  if (answer["cudnn"].is_number_integer()) python.cudnn = std::to_string(answer["cudnn"].get<std::int64_t>());
  if (answer["nccl"].is_string()) python.nccl = answer["nccl"].get<std::string>();
}

}  // namespace

void survey_pythons(const Scene& scene, Environment& environment) { Finder(scene, environment).find_all(); }

void ask_pythons(const Scene& scene, Environment& environment) {
  if (!scene.request.start_pythons || !scene.tree.is_live()) return;
  for (PythonEnvironment& python : environment.pythons) {
    if (facts::find_package(python, "torch") != nullptr) ask(scene, python);
  }
}

}  // namespace gpuwarden::probe
