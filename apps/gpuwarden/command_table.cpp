// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "command.hpp"
#include "deep.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "options.hpp"
#include "plan/plan_options.hpp"
#include "plan/workload_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kListOptions = std::to_array<Option>({
    {"-i,--gpu", OptionKind::list, "ID...", "only these GPUs: indices, UUIDs or their beginnings, PCI bus ids"},
    {"-p,--processes", OptionKind::flag, "", "a table of all processes"},
});

constexpr auto kFromOptions = std::to_array<Option>({
    {"--from", OptionKind::text, "FILE",
     "look at a capture instead of this machine: nvidia-smi output, a log ... (-: stdin)"},
});

constexpr auto kFromManyOptions = std::to_array<Option>({
    {"--from", OptionKind::list, "FILE...",
     "look at captures instead of this machine: nvidia-smi output, collect_env, logs ... (-: stdin)"},
    {"--root", OptionKind::text, "DIR", "look at the software below this folder: an image, a chroot"},
    {"--no-environment", OptionKind::flag, "", "look at the GPUs alone, not at the software around them"},
    {"--ask-pythons", OptionKind::flag, "", "start each Python with PyTorch and ask it (some seconds)"},
});

constexpr auto kDoctorOptions = std::to_array<Option>({
    {"--for", OptionKind::text, "PURPOSE", "judge for: pytorch==2.5.1+cu124, vllm, sm_90, \"train llama-3-8b\""},
    {"--only", OptionKind::list, "ID...", "only these checks or areas"},
    {"--skip", OptionKind::list, "ID...", "not these checks or areas"},
    {"--fail-on", OptionKind::text, "SEVERITY", "exit code 1 from this severity on (error)"},
    {"--why", OptionKind::flag, "", "with the source of every rule"},
    {"--junit", OptionKind::text, "FILE", "write a JUnit report too"},
    {"--fix", OptionKind::flag, "", "print the commands that mend what was found"},
    {"--apply", OptionKind::flag, "", "with --fix: run those that are safe, asking before each"},
    {"--yes", OptionKind::flag, "", "with --apply: do not ask"},
    {"--compare", OptionKind::flag, "", "compare machines: the operands are their captures"},
    {"--list", OptionKind::flag, "", "show all checks"},
});

constexpr auto kDiagnoseOptions = std::to_array<Option>({
    {"--from", OptionKind::repeated, "FILE",
     "facts of the machine on which it happened: a capture, snapshot or bundle; may be given again"},
    {"--live", OptionKind::flag, "", "it happened on this machine: look at it too"},
    {"--min-confidence", OptionKind::text, "C", "leave out causes that are less sure (0.3)"},
    {"-n,--top", OptionKind::text, "N", "show so many causes (3)"},
    {"--all", OptionKind::flag, "", "show every cause, every line and every consequence"},
    {"--list", OptionKind::flag, "", "show every cause that is known"},
    {"--explain", OptionKind::text, "WHAT", "look up a cause, xid=79, a CUDA error code, words, or a line of a log"},
});

constexpr auto kDriverOptions = std::to_array<Option>({
    {"--branch", OptionKind::text, "N", "this driver branch: 580"},
    {"--driver-version", OptionKind::text, "VERSION", "exactly this driver: 580.126.09"},
    {"--packaging", OptionKind::text, "WHOSE", "distribution, cuda-repository or runfile"},
    {"--runfile", OptionKind::text, "FILE", "install this NVIDIA-Linux-*.run"},
    {"--module", OptionKind::text, "WHICH", "the open or the proprietary kernel module"},
    {"--cuda", OptionKind::text, "VERSION", "programs of this CUDA version shall run"},
    {"--for", OptionKind::text, "PURPOSE", "a driver for: pytorch==2.5.1+cu124, vllm, sm_90"},
    {"--compute-only", OptionKind::flag, "", "no graphics libraries"},
    {"--through-reboot", OptionKind::flag, "", "do not unload modules: reboot instead"},
    {"--script", OptionKind::flag, "", "plan: print it as a shell script"},
    {"--yes", OptionKind::flag, "", "apply, rollback: do not ask"},
    {"--resume", OptionKind::flag, "", "apply: go on with the run that was cut off"},
    {"--force", OptionKind::list, "NAME...", "apply although these pre-checks say no"},
});

constexpr auto kEnvOptions = std::to_array<Option>({
    {"--for", OptionKind::text, "ARCH", "use, exec: the newest toolkit that builds for sm_89, \"NVIDIA L4\", native"},
    {"--none", OptionKind::flag, "", "use: take back what an earlier use has set"},
    {"--shell", OptionKind::text, "SHELL", "use, persist, generate: bash, zsh or fish (the shell around this)"},
    {"--file", OptionKind::text, "FILE", "persist: this start file"},
    {"--remove", OptionKind::flag, "", "persist: take the block out again"},
    {"-o,--output", OptionKind::text, "FILE", "module: write there instead of to standard output"},
    {"--lmod", OptionKind::flag, "", "module: in Lua, for Lmod (a FILE that ends with .lua is so by itself)"},
    {"--cuda", OptionKind::text, "VERSION", "create: the CUDA version"},
    {"--python", OptionKind::text, "VERSION", "create: the Python version"},
    {"--with", OptionKind::list, "PACKAGE...", "create: packages, for example torch"},
    {"--tool", OptionKind::text, "TOOL", "create: mamba, conda, micromamba, uv or venv (the first that is installed)"},
    {"--yes", OptionKind::flag, "", "create: run the commands instead of showing them"},
    {"--root", OptionKind::text, "DIR", "look at the software below this folder: an image, a chroot"},
    {"--from", OptionKind::list, "FILE...", "list, check, generate: of a captured machine instead of this one"},
});

constexpr auto kSnapshotOptions = std::to_array<Option>({
    {"-o,--output", OptionKind::text, "FILE", "write there instead of to standard output"},
});

constexpr auto kBundleOptions = std::to_array<Option>({
    {"-o,--output", OptionKind::text, "FILE", "the archive to write (gpuwarden-bundle-HOST-TIME.tar.gz)"},
    {"--anonymize", OptionKind::flag, "", "replace names of users and hosts, addresses, UUIDs and serials too"},
    {"--log", OptionKind::list, "FILE...", "add these logs, without the secrets in them"},
    {"--log-size", OptionKind::text, "SIZE", "how much of each log's end to keep (8MiB)"},
    {"--seconds", OptionKind::text, "N", "how long to read the GPUs, once a second (3)"},
    {"--for", OptionKind::text, "PURPOSE", "let the doctor judge for this purpose"},
    {"--list", OptionKind::text, "FILE", "show what is in a bundle"},
});

constexpr auto kSelectOptions = std::to_array<Option>({
    {"--export", OptionKind::optional, "SHELL", "print commands to eval: sh (default), fish, powershell, cmd"},
    {"--uuid", OptionKind::flag, "", "print UUIDs (the default: right in every CUDA_DEVICE_ORDER)"},
    {"--index", OptionKind::flag, "", "print indices (right only with CUDA_DEVICE_ORDER=PCI_BUS_ID)"},
    {"--explain", OptionKind::flag, "", "say for every GPU why it was chosen or not"},
    {"--interactive", OptionKind::flag, "", "pick from a list"},
});

constexpr auto kRunOptions = std::to_array<Option>({
    {"--nproc-per-node", OptionKind::text, "N|gpu", "how many ranks; gpu: one for each GPU (1)"},
    {"--one-gpu-per-rank", OptionKind::flag, "", "each rank sees only its own GPU, as device 0"},
    {"--nnodes", OptionKind::text, "N", "how many nodes take part (1)"},
    {"--node-rank", OptionKind::text, "R", "which of them this is (0)"},
    {"--master-addr", OptionKind::text, "HOST", "address of node 0 (127.0.0.1)"},
    {"--master-port", OptionKind::text, "PORT", "port of rank 0 (a free one)"},
    {"--log-dir", OptionKind::text, "DIR", "keep each rank's output there"},
    {"--grace", OptionKind::text, "DURATION", "time between asking a job to end and killing it (10s)"},
    {"--cpu-fallback", OptionKind::flag, "", "run on the CPU where no GPU can be had at all"},
    {"--report", OptionKind::text, "FILE", "write the final report as JSON"},
    {"--no-report", OptionKind::flag, "", "print no report"},
    {"--sample-period", OptionKind::text, "DURATION", "how often the GPUs are read meanwhile (1s)"},
    {"--sim-load", OptionKind::text, "SPEC", "what a job pretends to use on a simulated fleet (memory=1GiB,util=60)"},
    {"--end-leftovers", OptionKind::text, "RUN", "end what is left of a run whose launcher was killed"},
    {"-q,--quiet", OptionKind::flag, "", "say nothing but errors"},
});

constexpr auto kLeaseOptions = std::to_array<Option>({
    {"--list", OptionKind::flag, "", "show who holds what and who waits"},
    {"--hold", OptionKind::flag, "", "print the value and hold the GPUs until interrupted"},
});

constexpr auto kCompatOptions = std::to_array<Option>({
    {"--gpu,--gpus", OptionKind::repeated, "NAME",
     "judge for these GPUs instead of this machine's: \"H100\", \"RTX 4090\""},
    {"--driver", OptionKind::text, "VERSION", "judge for this driver instead of this machine's"},
    {"--cuda", OptionKind::text, "VERSION", "what a CUDA toolkit needs"},
    {"--for", OptionKind::text, "PURPOSE", "\"train llama-3-8b\": which GPU; a package: for --matrix"},
    {"--matrix", OptionKind::flag, "", "minimum, required, recommended and optimal driver of each GPU"},
    {"--on", OptionKind::text, "DATE", "judge what is supported then (2027-06), not today"},
    {"--why", OptionKind::flag, "", "show the sources"},
});

constexpr auto kMemoryOptions = std::to_array<Option>({
    {"-i,--gpu", OptionKind::list, "ID...", "only these GPUs: indices, UUIDs or their beginnings, PCI bus ids"},
    {"--watch", OptionKind::optional, "DURATION", "read and show again and again (1s)"},
    {"--count", OptionKind::text, "N", "--watch: so often"},
    {"-o,--output", OptionKind::text, "FILE", "trace: write there (memory-trace.csv)"},
    {"--strategy", OptionKind::text, "NAME|all",
     "replay: balanced (default), greedy, consolidated, fragmentation_aware"},
    {"--device-memory", OptionKind::text, "SIZE", "replay: memory of the simulated device (80GiB)"},
    {"--repeat", OptionKind::text, "N", "replay: run the trace so often, as steps of one program (1)"},
    {"--tokens", OptionKind::text, "T", "replay: length of the sequence, for traces whose sizes depend on it"},
    {"--random-lengths", OptionKind::text, "A..B", "replay: a random length for each step instead"},
    {"--steps", OptionKind::text, "N", "replay: how many random lengths (60)"},
    {"--seed", OptionKind::text, "N", "replay: other random lengths (1)"},
    {"--device", OptionKind::text, "N", "replay: whose events, of a recording with several devices"},
    {"--chart,--timeline", OptionKind::text, "FILE.html", "replay: write a page with memory over time and every block"},
    {"--snapshot", OptionKind::text, "FILE",
     "replay: write a PyTorch snapshot of the pool: .pickle for its viewer, .json"},
});

constexpr auto kSimOptions = std::to_array<Option>({
    {"--fleet", OptionKind::text, "SPEC", "the fleet (exec, start)"},
    {"--gpu", OptionKind::text, "INDEX", "the GPU (fault, set, clear)"},
    {"--freeze", OptionKind::flag, "", "clock: stop the fleet's time"},
    {"--thaw", OptionKind::flag, "", "clock: let it run again"},
    {"--speed", OptionKind::text, "FACTOR", "clock: how fast it runs"},
    {"--advance", OptionKind::text, "DURATION", "clock: jump ahead"},
});

void add_options(std::string& text, std::span<const Option> options) {
  for (const Option& option : options) {
    std::string names = option.names;
    std::ranges::replace(names, ',', ' ');
    const std::string value = option.kind == OptionKind::optional ? fmt::format("[={}]", option.value)
                              : *option.value != '\0'             ? fmt::format(" {}", option.value)
                                                                  : "";
    text += fmt::format("  {:<30} {}\n", names + value, option.help);
  }
}

/// Those that look, judge and plan.
std::vector<Command> looking_commands() {
  return {
      {"list",
       "show the GPUs: use, memory, temperature, power, processes, who holds them",
       "gpuwarden list [options]",
       {kListOptions, kFromOptions},
       Rest::none,
       run_list},
      {"select",
       "choose GPUs and print a value for CUDA_VISIBLE_DEVICES",
       "gpuwarden select [options]",
       {kSelectionOptions, kSelectOptions, kFromOptions, kWorkloadOptions},
       Rest::none,
       run_select},
      {"plan",
       "say whether a model fits, on how many GPUs, with which strategy",
       "gpuwarden plan MODEL | CONFIG.json | DIR | --params 7B [--task TASK] [--gpus 8xh100] [options]",
       {kPlanOptions, kFromOptions, kWorkloadOptions},
       Rest::operands,
       run_plan},
      {"snapshot",
       "write everything that is known about the machine's GPUs as JSON, for --from elsewhere",
       "gpuwarden snapshot [-o FILE] [--from FILE]",
       {kSnapshotOptions, kFromManyOptions},
       Rest::none,
       run_snapshot},
      {"doctor",
       "judge driver, GPUs, toolkits, frameworks and machine, and say what to do first",
       "gpuwarden doctor [--for PURPOSE] [--from FILE...] | --compare A.json B.json...",
       {kDoctorOptions, kDeepOptions, kFromManyOptions, kKnowledgeOptions},
       Rest::operands,
       run_doctor},
      {"diagnose",
       "find the cause of a failure in its logs, and say what to do",
       "gpuwarden diagnose [FILE | DIR | -]... [--from CAPTURE | --live]\n"
       "       gpuwarden diagnose --list | --explain WHAT",
       {kDiagnoseOptions, kKnowledgeOptions},
       Rest::operands,
       run_diagnose},
  };
}

/// Those that change or gather what a machine has.
std::vector<Command> setup_commands() {
  return {
      {"driver",
       "judge, plan, change and bring back NVIDIA's driver",
       "gpuwarden driver [status | recommend | plan | apply | rollback | history] [options]",
       {kDriverOptions, kFromManyOptions, kKnowledgeOptions},
       Rest::operands,
       run_driver},
      {"bundle",
       "put everything for a ticket into one archive, without secrets",
       "gpuwarden bundle [-o FILE.tar.gz] [--anonymize] [--log FILE...] | --list FILE",
       {kBundleOptions, kFromManyOptions, kKnowledgeOptions},
       Rest::none,
       run_bundle},
      {"env",
       "CUDA toolkits side by side: choose one for a shell, a command, or for good",
       "gpuwarden env list | check\n"
       "       eval \"$(gpuwarden env use 12.4 | --for sm_89 | --none)\"\n"
       "       gpuwarden env exec 12.4 -- COMMAND...\n"
       "       gpuwarden env module 12.4 [-o FILE] | persist 12.4 | persist --remove\n"
       "       gpuwarden env create NAME --cuda 12.4 [--python 3.11] [--with torch] [--yes]\n"
       "       gpuwarden env explain [NCCL_SOCKET_IFNAME | nccl | vllm ...] | generate nccl | vllm | pytorch",
       {kEnvOptions, kKnowledgeOptions},
       Rest::operands,
       run_env},
  };
}

/// Those that take GPUs, and the rest.
std::vector<Command> running_commands() {
  return {
      {"run",
       "choose GPUs, reserve them, and run a command on them",
       "gpuwarden run [options] -- COMMAND...",
       {kSelectionOptions, kRunOptions, kKnowledgeOptions, kWorkloadOptions},
       Rest::command,
       run_run},
      {"lease",
       "reserve GPUs for a shell",
       "gpuwarden lease [options] [-- COMMAND...]",
       {kSelectionOptions, kLeaseOptions, kWorkloadOptions},
       Rest::command,
       run_lease},
      {"compat",
       "which driver, toolkit, framework and GPU go together",
       "gpuwarden compat [QUESTION] [options]\n"
       "              no question: what this machine's driver and GPUs run\n"
       "              cu128 | torch==2.5.1+cu124 | vllm==0.9 | RTX 5090 | sm_89 | xid 79 | driver 550.54",
       {kCompatOptions, kFromOptions, kKnowledgeOptions},
       Rest::operands,
       run_compat},
      {"memory",
       "who holds how much GPU memory; note down a program's allocations; replay them through the pool",
       "gpuwarden memory [--watch] [-i GPU]\n"
       "       gpuwarden memory trace [-o FILE] -- COMMAND...\n"
       "       gpuwarden memory replay TRACE [--strategy NAME|all] [options]",
       {kMemoryOptions, kFromOptions},
       Rest::operands,
       run_memory},
      {"sim",
       "simulated fleets",
       "gpuwarden sim list | show FLEET | exec --fleet F -- COMMAND... | start NAME --fleet F | stop NAME |\n"
       "              fault NAME --gpu I FAULT | clear NAME [--gpu I] | reset NAME --gpu I |\n"
       "              set NAME --gpu I FIELD=VALUE | clock NAME [--freeze ...]",
       {kSimOptions},
       Rest::operands,
       run_sim},
  };
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> kCommands = [] {
    std::vector<Command> all = looking_commands();
    std::ranges::move(setup_commands(), std::back_inserter(all));
    std::ranges::move(running_commands(), std::back_inserter(all));
    return all;
  }();
  return kCommands;
}

const Command* find_command(std::string_view name) {
  const auto found = std::ranges::find_if(commands(), [&](const Command& command) { return command.name == name; });
  return found == commands().end() ? nullptr : &*found;
}

std::vector<Option> options_of(const Command& command) {
  std::vector<Option> all(kCommonOptions.begin(), kCommonOptions.end());
  for (const auto options : command.options) all.insert(all.end(), options.begin(), options.end());
  return all;
}

std::string key_of(const Option& option) {
  const auto names = split(option.names, ',');
  return std::string(names.back().substr(names.back().find_first_not_of('-')));
}

namespace {

std::string_view title_of(const Command& command, std::span<const Option> options) {
  if (options.data() == kSelectionOptions.data()) return "which GPUs";
  if (options.data() != kWorkloadOptions.data()) return "options";
  return command.run == run_plan ? "the model's task" : "with --model or --model-size: the model's task";
}

}  // namespace

std::string help_for(const Command& command) {
  std::string text = fmt::format("gpuwarden {}: {}\n\nusage: {}\n", command.name, command.summary, command.usage);
  std::string_view section;
  for (const auto options : command.options) {
    const std::string_view title = title_of(command, options);
    if (title != section) text += fmt::format("\n{}:\n", title);
    section = title;
    add_options(text, options);
  }
  text += "\ncommon options:\n";
  add_options(text, kCommonOptions);
  return text;
}

std::string overview() {
  std::string text =
      "gpuwarden knows the GPUs of a machine, chooses among them, and runs work on them.\n\n"
      "usage: gpuwarden COMMAND [options]\n\ncommands:\n";
  for (const Command& command : commands()) text += fmt::format("  {:<10} {}\n", command.name, command.summary);
  text +=
      "  help       help for a command\n  version    print the version\n\n"
      "No GPU here? gpuwarden list --simulate h100x8\n"
      "exit codes: 0 fine, 1 no (nothing fits, a GPU in trouble), 2 wrong usage, 3 driver unavailable; run: the job's "
      "own\n";
  return text;
}

std::optional<std::string> Args::text(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second.empty() ? "" : found->second.front();
}

std::vector<std::string> Args::list(const std::string& key) const {
  std::vector<std::string> result;
  const auto found = values_.find(key);
  if (found == values_.end()) return result;
  for (const std::string& value : found->second) {
    for (const auto piece : split(value, ',')) result.emplace_back(trim(piece));
  }
  return result;
}

std::vector<std::string> Args::all(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

int complain(const Error& error) {
  std::fflush(stdout);
  fmt::print(stderr, "gpuwarden: {}\n", error.message);
  if (!error.hint.empty()) fmt::print(stderr, "hint: {}\n", error.hint);
  return exit_code_of(error.code);
}

int refuse_program(const Error& error) {
  complain(error);
  return exit_code_of_start(error.code);
}

void warn(std::string_view text) { fmt::print(stderr, "gpuwarden: warning: {}\n", text); }

}  // namespace gpuwarden::cli
