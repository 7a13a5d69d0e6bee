// SPDX-License-Identifier: Apache-2.0
// The process that talks to NVML, seen from inside: it answers requests on a socket until that closes.
//
// A message is a 4-byte length and a CBOR map. Requests: {"only": [index...] or null for all, "skip": [index...],
// "detail", "processes", "memory_alone", "links", "cuda_order", "holders", "series": one of many, so that what changes
// slowly is carried on, "refresh": but not now}. Answers: {"driver": {...}} once; to each request {"count": n}, then
// {"reading": index} before each GPU, {"known": record} as soon as it is known which GPU it is, {"gpu": record} after
// it, which comes with the next one's "reading"; records are packed (facts/packed.hpp). Then, where asked, {"part":
// name} before and {"gpu": record}..., {"links": [...]}, {"cuda_order": [...]} after each part for which no one GPU can
// be blamed. {"holders": [...]} comes whenever they are found, at the latest after their part. Then {"done": true}.
// {"problem": driver_problem} instead of "driver" or "count" when the driver does not answer. {"stale": true} instead
// of "count" when it was replaced.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "gpuwarden/probe/nvml_reader.hpp"
#include "probe/sysfs.hpp"

namespace gpuwarden::probe {

/// A request for all GPUs but those to skip.
nlohmann::json request_message(const ReadRequest& request, const std::vector<std::uint32_t>& skip);

/// Serves until the socket closes. Never returns. `pci`: NVIDIA's GPUs as the parent has just seen them in /sys.
[[noreturn]] void serve_reader(int fd, const ReaderOptions& options, const std::vector<PciGpu>& pci);

}  // namespace gpuwarden::probe
