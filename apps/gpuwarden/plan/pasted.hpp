// SPDX-License-Identifier: Apache-2.0
// Command lines of programs that train and serve, as people paste them behind `gpuwarden plan`.
#pragma once

#include <string>
#include <vector>

namespace gpuwarden::cli {

/// The words without those that start the program ("vllm serve", "python -m sglang.launch_server", "accelerate launch",
/// "train.py"), and with llama.cpp's -m and -hf as --model, its -np as --max-requests. A server's line becomes one of
/// `--task serve`, with its
/// `--engine` where that is not vLLM, unless it names a task; "--gradient_checkpointing True" becomes `--recompute
/// full`. Options of gpuwarden's own may stand before the line, which may be one quoted word, or the arguments of an
/// image behind "docker run".
std::vector<std::string> without_launcher(const std::vector<std::string>& words);

}  // namespace gpuwarden::cli
