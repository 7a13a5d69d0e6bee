// SPDX-License-Identifier: Apache-2.0
// What an Xid of the kernel log means.
#include <fmt/format.h>

#include "compat/answer.hpp"

namespace gpuwarden::cli::compat {

Answer answer_xid(const Asked& asked, int code) {
  Answer answer;
  const auto* row = asked.knowledge.xid(code);
  if (row == nullptr) {
    answer.json = {{"xid", code}, {"known", false}};
    answer.text = fmt::format("Xid {} is not in this knowledge base\n", code);
    answer.exit_code = kNo;
    return answer;
  }
  answer.json = {{"xid", code},
                 {"known", true},
                 {"mnemonic", row->mnemonic},
                 {"description", row->description},
                 {"severity", row->severity},
                 {"cause", row->cause},
                 {"action", row->action},
                 {"action_plain", row->action_plain},
                 {"investigate", row->investigate}};
  const Tone tone = row->severity == "critical" || row->severity == "error" ? Tone::bad
                    : row->severity == "warning"                            ? Tone::warning
                                                                            : Tone::dim;
  answer.text = asked.style.paint(fmt::format("Xid {}", code), Tone::bold) +
                fmt::format("  {}: {}\n", asked.style.paint(row->severity, tone),
                            row->description.empty() ? "only its name is known" : row->description);
  if (!row->mnemonic.empty()) answer.text += line(asked, "name", row->mnemonic);
  if (!row->cause.empty()) answer.text += line(asked, "cause", row->cause);
  if (!row->action_plain.empty()) answer.text += line(asked, "do", row->action_plain);
  if (!row->action.empty()) answer.text += line(asked, "NVIDIA's word", row->action);
  if (!row->investigate.empty()) answer.text += line(asked, "investigate", row->investigate);
  answer.sources.push_back(fmt::format("Xid {}: {}", code, row->source));
  return answer;
}

}  // namespace gpuwarden::cli::compat
