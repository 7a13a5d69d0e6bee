// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/modulefile.hpp"

#include <fmt/format.h>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/toolkits/activation.hpp"

namespace gpuwarden::toolkits {

namespace {

/// A word in double quotes with everything escaped that the language would heed inside them.
std::string word(ModuleSyntax syntax, std::string_view text) {
  const std::string_view heeded = syntax == ModuleSyntax::tcl ? "\\\"$[]{}" : "\\\"";
  std::string result = "\"";
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (heeded.contains(c)) result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string line(ModuleSyntax syntax, std::string_view command, const std::vector<std::string_view>& words) {
  if (syntax == ModuleSyntax::tcl) {
    std::string text(command);
    for (const auto one : words) text += " " + word(syntax, one);
    return text + "\n";
  }
  std::vector<std::string> quoted_words;
  for (const auto one : words) quoted_words.push_back(word(syntax, one));
  return fmt::format("{}({})\n", command, join(quoted_words, ", "));
}

}  // namespace

std::string modulefile(const facts::Toolkit& toolkit, ModuleSyntax syntax) {
  const bool tcl = syntax == ModuleSyntax::tcl;
  const ToolkitFolders folders = folders_of(toolkit);
  const std::string what = "CUDA toolkit " + printable(toolkit.version);
  const char* prepend = tcl ? "prepend-path" : "prepend_path";
  std::string text = tcl ? "#%Module1.0\n" : "";
  text += fmt::format("{} {}; written by gpuwarden env module\n", tcl ? "#" : "--", what);
  if (tcl) {
    text += line(syntax, "module-whatis", {what});
    text += "proc ModulesHelp { } {\n  puts stderr " + word(syntax, what) + "\n}\n";
    text += line(syntax, "conflict", {"cuda"});
  } else {
    text += line(syntax, "whatis", {what}) + line(syntax, "help", {what}) + line(syntax, "family", {"cuda"});
  }
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) text += line(syntax, "setenv", {name, folders.home});
  for (const std::string& folder : folders.programs) text += line(syntax, prepend, {"PATH", folder});
  for (const std::string& folder : folders.libraries) text += line(syntax, prepend, {"LD_LIBRARY_PATH", folder});
  return text;
}

}  // namespace gpuwarden::toolkits
