// SPDX-License-Identifier: Apache-2.0
// The process that talks to NVML, seen from inside: it answers requests on a socket until that closes.
//
// A message is a 4-byte length and a CBOR map. Requests: {"gpus": [index...] or null for all, "processes", "links",
// "cuda_order"}. Answers: {"driver": {...}} once, then {"reading": index} before and {"gpu": record} after each GPU,
// then {"links": [...]}, {"cuda_order": [...]} where asked, then {"done": true}. {"problem": error} instead of "driver"
// when the driver does not answer, with "library_failed" where that is NVML's library's fault and "mismatch"
// where library and kernel module differ. {"stale": true} instead of all answers when the driver was replaced.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "gpuwarden/probe/child_process.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"
#include "probe/nvml_library.hpp"

namespace gpuwarden::probe {

/// Words for an NVML that does not come up.
Error explain_init(nvml::Return code, const nvml::Functions& nvml, const ReaderOptions& options);

/// Serves until the socket closes. Never returns.
[[noreturn]] void serve_reader(int fd, const ReaderOptions& options);

}  // namespace gpuwarden::probe
