// SPDX-License-Identifier: Apache-2.0
// The process that talks to NVML, seen from inside: it answers requests on a socket until that closes.
//
// A message is a 4-byte length and a CBOR map. Requests: {"only": [index...] or null for all, "skip": [index...],
// "detail", "processes", "links", "cuda_order"}. Answers: {"driver": {...}} once; to each request {"count": n}, then
// {"reading": index} before each GPU, {"known": record} as soon as it is known which GPU it is, {"gpu": record} after
// it; then, where asked, {"part": name} before and {"gpu": record}..., {"links": [...]}, {"cuda_order": [...]} after
// each part for which no one GPU can be blamed; then {"done": true}. {"problem": driver_problem} instead of "driver" or
// "count" when the driver does not answer. {"stale": true} instead of "count" when it was replaced.
#pragma once

#include "gpuwarden/probe/nvml_reader.hpp"

namespace gpuwarden::probe {

/// Serves until the socket closes. Never returns.
[[noreturn]] void serve_reader(int fd, const ReaderOptions& options);

}  // namespace gpuwarden::probe
