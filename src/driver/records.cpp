// SPDX-License-Identifier: Apache-2.0
#include "driver/records.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::driver {

namespace fs = std::filesystem;

namespace {

bool is_link(const fs::path& path) {
  std::error_code ignored;
  return fs::is_symlink(fs::symlink_status(path, ignored));
}

bool lies_below(const fs::path& root, const fs::path& path) {
  const auto [end, ignored] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return end == root.end();
}

}  // namespace

fs::path records_folder(const fs::path& root) { return root / fs::path(kDriverFolder).relative_path(); }

Result<void> check_inside(const fs::path& root, const fs::path& path) {
  if (root == "/") return {};
  std::error_code error;
  const fs::path top = fs::canonical(root, error);
  if (error) return std::unexpected(error_from_errno(error.value(), "cannot open " + root.string()));
  fs::path at = root;
  for (const auto& part : path.lexically_relative(root)) {
    at /= part;
    if (!is_link(at)) continue;
    // A link to nowhere leads out, too: what it names may be made at any time.
    const fs::path target = fs::canonical(at, error);
    if (error || !lies_below(top, target))
      return fail(ErrorCode::unsatisfied,
                  fmt::format("{} is a link that leads out of {}", printable(at.string()), printable(root.string())),
                  "nothing is written through it: make it a folder, or a relative link inside");
  }
  return {};
}

Result<void> make_records(const fs::path& root) {
  const fs::path folder = records_folder(root);
  GPUWARDEN_CHECK(check_inside(root, folder));
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  if (!error && ::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) error.assign(errno, std::generic_category());
  if (error) return std::unexpected(error_from_errno(error.value(), "cannot make " + folder.string()));
  return {};
}

Result<void> check_records(const fs::path& root, const DriverRun& run) {
  const auto step = std::ranges::find(run.plan.steps, "record", &Step::id);
  if (step == run.plan.steps.end()) return {};
  if (run.steps[static_cast<std::size_t>(step - run.plan.steps.begin())] != StepState::done) return {};
  const fs::path folder = records_folder(root) / run.plan.id;
  GPUWARDEN_CHECK(check_inside(root, folder));
  std::error_code ignored;
  if (fs::exists(folder / "complete", ignored)) return {};
  return fail(ErrorCode::corrupt,
              fmt::format("the records of the run {} are gone: {} is not complete", run.plan.id, folder.string()),
              "bring that folder back from a backup; without it the previous state is unknown");
}

}  // namespace gpuwarden::driver
