// SPDX-License-Identifier: Apache-2.0
// Writes allocations and frees as the CSV that `gpuwarden memory replay` reads, with the device as one more column. The
// file is GPUWARDEN_MEMTRACE_FILE; processes other than GPUWARDEN_MEMTRACE_PID append their number to its name. It
// appears with the first allocation. Safe to use from several threads; a forked child begins anew.
#pragma once

#include <cstdint>
#include <optional>

namespace gpuwarden::preload {

struct Noted {
  std::uint64_t id = 0;
  std::uint64_t size = 0;
  int device = 0;
};

/// Device memory at an address. What was noted there before and never freed counts as freed.
void note_allocation(std::uint64_t address, std::uint64_t size, std::uint64_t stream, int device);
/// Takes an address out of the books; nothing if it is not in them.
std::optional<Noted> forget(std::uint64_t address);
/// It could not be freed after all.
void remember(std::uint64_t address, const Noted& noted);
void note_free(const Noted& noted, std::uint64_t stream);

/// Physical memory without an address (cuMemCreate). It lives as long as its handle or a mapping of it.
void note_handle(std::uint64_t handle, std::uint64_t size, int device);
void note_handle_used(std::uint64_t handle, std::uint64_t address, std::uint64_t size);
void note_handle_released(std::uint64_t handle);
/// All mappings within [address, address + size) are gone.
void note_unmapped(std::uint64_t address, std::uint64_t size);

}  // namespace gpuwarden::preload
