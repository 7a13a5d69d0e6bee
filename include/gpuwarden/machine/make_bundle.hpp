// SPDX-License-Identifier: Apache-2.0
// One archive with all that is known about a machine, for a ticket.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/bundle/bundle.hpp"
#include "gpuwarden/doctor/purpose.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/machine/machine.hpp"

namespace gpuwarden::machine {

/// What goes into a bundle, and where.
struct BundleRequest {
  std::filesystem::path output;  ///< empty: a name of the host and the time, in the working directory
  SurveyOptions survey;
  doctor::Purpose purpose;             ///< what the doctor judges the machine for
  std::chrono::seconds sample_for{3};  ///< how long the GPUs' metrics are sampled
  bundle::Contents logs;               ///< gathered by bundle::gather_log
  bool anonymize = false;              ///< names of people and machines are taken out, too
  std::string program_version;
};

/// Of "output", "anonymize", "log" (files, at most 32), "log-size" (how much of each log's end; 8 MiB, at most 64),
/// "seconds" (at most 600) and "for" (a purpose). Fails with invalid_argument, and as bundle::check_output and
/// bundle::gather_log do, which read the logs.
Result<BundleRequest> read_bundle_request(const NamedValues& values, const knowledge::Knowledge& knowledge);

struct MadeBundle {
  std::filesystem::path file;
  bundle::Manifest manifest;
};

/// Surveys the machine, examines it, samples its GPUs, and writes it all without its secrets. What only the machine
/// itself tells is left out, and said to be, where facts stand for it. Fails as bundle::write_bundle does.
Result<MadeBundle> make_bundle(const Machine& machine, const knowledge::Knowledge& knowledge, BundleRequest request,
                               Clock& clock);

}  // namespace gpuwarden::machine
