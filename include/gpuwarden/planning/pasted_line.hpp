// SPDX-License-Identifier: Apache-2.0
// Command lines of programs that train and serve, as people paste them: what they say of a plan.
//
//     auto line = read_pasted_line("vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 8192");
//     line->words.text("task");  // "serve"
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/words.hpp"

namespace gpuwarden::planning {

/// Options with a value, "--program", that a caller has beside a plan's own.
using OwnValued = std::vector<std::string>;

/// The words without those that start the program ("vllm serve", "python -m sglang.launch_server", "accelerate launch",
/// "train.py"), and with llama.cpp's -m and -hf as --model, its -np as --max-requests. A server's line becomes one of
/// `--task serve`, with its `--engine` where that is not vLLM, unless it names a task; "--gradient_checkpointing True"
/// becomes `--recompute full`. Options of gpuwarden's own may stand before the line, which may be one quoted word, or
/// the arguments of an image behind "docker run". What other programs call an option stays (foreign_options.hpp).
/// Fails with invalid_argument where a program and what it is to do are mistyped ("vllm serv"). What stands behind an
/// option as its value starts no program ("--family llama").
Result<std::vector<std::string>> without_launcher(const std::vector<std::string>& words, const OwnValued& own = {});

struct PastedLine {
  Words words{"--"};                  ///< by a plan's own names, "model" and "gpus" among them
  std::vector<std::string> needless;  ///< what was read past, a sentence for each reason
};

/// A whole line as a shell has it. Other programs' names for a plan's options are taken for these. Fails with
/// invalid_argument on a line that no shell could split, an option that no plan depends on in a known way (the hint
/// says what to write), one without its value, one that is given twice, and on a second model.
Result<PastedLine> read_pasted_line(std::string_view line);

}  // namespace gpuwarden::planning
