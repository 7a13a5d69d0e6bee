// SPDX-License-Identifier: Apache-2.0
// What an agent on another host may write: messages in pieces, each read as every value that it may carry; and
// hostfiles.
#include <cstdint>

#include "gpuwarden/hosts/host.hpp"
#include "hosts/message.hpp"
#include "hosts/rank_lines.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuwarden::hosts;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  MessageReader reader;
  RankLines lines;
  const std::size_t half = size / 2;
  for (const std::string_view piece : {text.substr(0, half), text.substr(half)}) {
    reader.add(piece);
    for (;;) {
      const auto message = reader.next();
      if (!message || !*message) break;
      const Json& head = (*message)->head;
      (void)order_from_json(head);
      (void)held_from_json(head);
      (void)meeting_from_json(head);
      (void)reach_from_json(head);
      (void)start_from_json(head);
      (void)done_from_json(head);
      (void)error_from_json(head);
    }
    (void)lines.add(piece);
  }
  (void)lines.finish();
  (void)parse_hostfile(text, "hosts");
  return 0;
}
