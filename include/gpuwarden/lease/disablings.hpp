// SPDX-License-Identifier: Apache-2.0
// GPUs that people have taken out of use: kept in files, so that every process honours them, after a reboot too.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/lease/verdicts.hpp"

namespace gpuwarden::lease {

/// The folders of the files (disabled.json).
struct DisablingPlaces {
  std::filesystem::path everybody = "/var/lib/gpuwarden";  ///< root's, which holds for all
  std::filesystem::path own;  ///< the caller's, which holds for his own jobs; empty: none (root's is the other)
};
/// $XDG_STATE_HOME/gpuwarden, else $HOME/.local/state/gpuwarden, for the caller's own; GPUWARDEN_STATE_DIR stands for
/// both.
DisablingPlaces disabling_places(const Environment& environment);

class Disablings {
 public:
  explicit Disablings(DisablingPlaces places) : places_(std::move(places)) {}

  struct View {
    std::vector<facts::Disabling> disabled;  ///< root's before the caller's own; each GPU once
    std::vector<Acceptance> accepted;        ///< of machine::out_of_use: what may not be held against GPUs
    std::vector<std::string> warnings;       ///< files that are not believed: another user's, or open to others
  };
  /// What holds for the caller. Fails where a file that counts cannot be read (permission_denied) or is damaged
  /// (corrupt): which GPUs are disabled is then unknown, and none may be taken for enabled.
  Result<View> read() const;

  /// Disables GPUs or MIG instances: for everybody where the caller is root, else for his own jobs. One that he has
  /// disabled already has the new reason. `by` names him; an empty one is his user name. Fails with invalid_argument
  /// without a reason, and as writing the file does.
  Result<void> disable(const std::vector<Uuid>& uuids, const std::string& reason, const std::string& by,
                       const Clock& clock) const;
  /// Puts them back into use; those of them that were disabled. Fails with permission_denied where another's word
  /// disables one: nothing is changed then.
  Result<std::vector<Uuid>> enable(const std::vector<Uuid>& uuids) const;

 private:
  DisablingPlaces places_;
};

}  // namespace gpuwarden::lease
