// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/diagnosis.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace gpuwarden::knowledge {
namespace {

/// Runs when whatever was made after its registration has been destroyed.
void read_rules_at_the_end() {
  std::string all;
  for (const DiagnosisRule& rule : diagnosis_rules()) {
    for (const std::string_view literal : rule.literals) all += literal;
  }
  for (const DiagnosisCause& cause : diagnosis_causes()) all += cause.id;
  ::_exit(all.empty() || diagnosis_cause(diagnosis_causes().front().id) == nullptr ? 1 : 0);
}

// A view of a rule may be kept by what outlives every static of the library.
TEST(DiagnosisTables, CanBeReadUntilTheProcessEnds) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::atexit(read_rules_at_the_end);
    std::exit(diagnosis_rules().empty() ? 2 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace gpuwarden::knowledge
