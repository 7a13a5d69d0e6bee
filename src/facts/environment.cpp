// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/environment.hpp"

#include <algorithm>

namespace gpuwarden::facts {

namespace {

template <class T>
const T* named(const std::vector<T>& list, std::string_view name) {
  const auto found = std::ranges::find(list, name, &T::name);
  return found == list.end() ? nullptr : &*found;
}

}  // namespace

std::string_view to_string(ModuleFlavour flavour) { return flavour == ModuleFlavour::open ? "open" : "proprietary"; }

std::optional<ModuleFlavour> module_flavour_from(std::string_view name) {
  if (name == "open") return ModuleFlavour::open;
  if (name == "proprietary") return ModuleFlavour::proprietary;
  return std::nullopt;
}

const std::string* find_variable(const Environment& environment, std::string_view name) {
  const Variable* variable = named(environment.variables, name);
  return variable == nullptr ? nullptr : &variable->value;
}

const PythonPackage* find_package(const PythonEnvironment& python, std::string_view name) {
  return named(python.packages, name);
}

const Service* find_service(const Environment& environment, std::string_view name) {
  return named(environment.services, name);
}

}  // namespace gpuwarden::facts
