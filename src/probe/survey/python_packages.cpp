// SPDX-License-Identifier: Apache-2.0
#include "probe/survey/python_packages.hpp"

#include "gpuwarden/base/text.hpp"
#include "probe/survey/formats.hpp"

namespace gpuwarden::probe {

namespace {

using facts::PythonEnvironment;

void add_package(PythonEnvironment& python, const NamedVersion& package, std::string_view manager) {
  const std::string name = facts::normalised_package(package.name);
  if (!facts::is_gathered_package(name) || facts::find_package(python, name) != nullptr) return;
  python.packages.push_back({printable(name), package.version, std::string(manager)});
}

/// What the build wrote down: torch/version.py, and the architectures inside the library.
void read_torch(const Tree& tree, const std::string& site, PythonEnvironment& python) {
  const auto text = tree.read(site + "/torch/version.py", 16384);
  if (!text) return;
  const auto cuda = python_assignment(*text, "cuda");
  const auto hip = python_assignment(*text, "hip");
  if (hip && !hip->empty()) python.torch_rocm = *hip;
  if (cuda) python.torch_cuda = *cuda;
  if (const auto debug = python_assignment(*text, "debug"); debug == "True" || debug == "False")
    python.torch_debug = debug == "True";
  const auto version = python_assignment(*text, "__version__");
  for (auto& package : python.packages) {  // with its local part, which the folder's name may lack
    if (package.name == "torch" && version && !version->empty()) package.version = *version;
  }
  if (cuda && cuda->empty() && !python.torch_rocm) return;
  tree.scan(site + "/torch/lib/libtorch_python.so", kLongestArchitectures, [&](std::string_view block) {
    auto found = torch_architectures_in(block, python.torch_rocm.has_value());
    if (found.size() > python.torch_architectures.size()) python.torch_architectures = std::move(found);
    return python.torch_architectures.size() < 2;  // one alone may stand in a message
  });
}

}  // namespace

void read_site(const Tree& tree, const std::string& site, PythonEnvironment& python) {
  for (const std::string& name : tree.names(site)) {
    if (const auto package = of_dist_info(name)) add_package(python, *package, "pip");
  }
  if (python.torch_architectures.empty()) read_torch(tree, site, python);
}

void read_conda(const Tree& tree, const std::string& prefix, PythonEnvironment& python) {
  for (const std::string& name : tree.names(prefix + "/conda-meta")) {
    auto package = of_conda_meta(name);
    if (!package) continue;
    if (package->name == "python" && !python.version) python.version = package->version;
    if (package->name == "pytorch") {
      package->name = "torch";
      if (!python.torch_cuda) python.torch_cuda = cuda_of_conda_build(name);
    }
    add_package(python, *package, "conda");
  }
}

}  // namespace gpuwarden::probe
