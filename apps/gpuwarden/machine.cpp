// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/bundle/bundle.hpp"
#include "gpuwarden/probe/kernel_messages.hpp"
#include "options.hpp"
#include "smi_fleet.hpp"

namespace gpuwarden::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kControlProfile = 550;

std::optional<std::string> variable(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
}

/// Beside the program: ../lib/gpuwarden/sim, in a build tree as where it is installed.
fs::path library_root(const Environment& environment) {
  if (const auto given = variable(environment, "GPUWARDEN_SIM_LIB_DIR")) return *given;
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path() / "lib/gpuwarden/sim";
}

/// A capture becomes a fleet file; a fleet's name or YAML stays as it is. The file lives in the simulator's root, named
/// by its content, so that two commands with one capture share a fleet.
Result<std::string> resolve_spec(const std::string& spec, const Environment& environment) {
  std::error_code ignored;
  if (!fs::is_regular_file(spec, ignored)) return spec;
  GPUWARDEN_TRY(std::string bytes, read_file(spec));
  const std::string extension = fs::path(spec).extension();
  if (extension == ".yaml" || extension == ".yml") return spec;
  GPUWARDEN_TRY(const std::string text, bundle::capture_text(std::move(bytes), spec));
  auto capture = capture::read_capture(text, spec);
  if (!capture) return text.starts_with('<') ? Result<std::string>(std::unexpected(capture.error())) : spec;
  const bool complete = std::ranges::any_of(capture->parts, [](const capture::Part& part) {
    return part.kind == capture::Kind::smi_xml || part.kind == capture::Kind::smi_query ||
           part.kind == capture::Kind::gpuwarden_json;
  });
  GPUWARDEN_TRY(const std::string yaml, fleet_yaml_from(capture->snapshot, fs::path(spec).stem().string(), complete));
  const fs::path folder =
      variable(environment, "GPUWARDEN_SIM_DIR").value_or(fmt::format("/dev/shm/gpuwarden-sim-{}", ::geteuid()));
  fs::create_directories(folder, ignored);
  fs::permissions(folder, fs::perms::owner_all, ignored);
  const fs::path file = folder / fmt::format("{:016x}.yaml", std::hash<std::string>{}(yaml));
  GPUWARDEN_CHECK(write_file_atomically(file, yaml));
  return file.string();
}

/// A pipe, as in --from <(ssh node nvidia-smi), is read until its writer ends.
Result<std::string> read_file_or_pipe(const std::string& file) {
  std::error_code ignored;
  if (!fs::is_fifo(file, ignored)) return read_file(file);
  const UniqueFd pipe(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!pipe) return std::unexpected(error_from_errno(errno, "cannot read " + file));
  return read_descriptor(pipe.get(), file);
}

Result<capture::Capture> read_one_capture(const std::string& file) {
  const std::string name = file == "-" ? "standard input" : file;
  GPUWARDEN_TRY(std::string bytes, file == "-" ? read_descriptor(0, name) : read_file_or_pipe(file));
  GPUWARDEN_TRY(const std::string text, bundle::capture_text(std::move(bytes), name));
  return capture::read_capture(text, name);
}

/// --probe, and the variables that stand in for parts of the machine.
Result<void> choose_probe(const Context& context, const Machine& machine, probe::ReaderOptions& reader) {
  static constexpr std::array<std::pair<std::string_view, probe::ProbeChoice>, 3> kChoices{
      {{"auto", probe::ProbeChoice::automatic},
       {"nvml", probe::ProbeChoice::nvml},
       {"nvidia-smi", probe::ProbeChoice::nvidia_smi}}};
  if (const auto program = variable(context.environment, "GPUWARDEN_NVIDIA_SMI")) reader.nvidia_smi = *program;
  const auto wanted = context.args.text("probe");
  if (!wanted) return {};
  const auto* const found = std::ranges::find(kChoices, *wanted, &decltype(kChoices)::value_type::first);
  if (found == kChoices.end())
    return fail(ErrorCode::invalid_argument, fmt::format("--probe: '{}' is no probe", printable(*wanted)),
                "auto, nvml or nvidia-smi");
  if (machine.simulated() && found->second == probe::ProbeChoice::nvidia_smi)
    return fail(ErrorCode::invalid_argument, "--probe nvidia-smi and --simulate cannot be given together",
                "nvidia-smi tells of this machine's GPUs; gpuwarden sim exec runs it in front of a simulated fleet");
  if (!machine.simulated()) reader.probe = found->second;
  return {};
}

std::string user_name() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry != nullptr ? entry->pw_name : std::to_string(::geteuid());
}

}  // namespace

Result<std::unique_ptr<Simulator>> Simulator::open(const Environment& environment) {
  std::unique_ptr<Simulator> simulator(new Simulator());
  simulator->libraries_ = library_root(environment);
  const fs::path library = simulator->library(kControlProfile);
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return fail(ErrorCode::unavailable,
                fmt::format("the simulator cannot be opened: {}", why != nullptr ? why : library.string()),
                "install it beside the program, or name its folder with GPUWARDEN_SIM_LIB_DIR");
  }
  simulator->call_ = reinterpret_cast<int (*)(const char*, char**)>(::dlsym(handle, "gpuwarden_sim_call"));
  if (simulator->call_ == nullptr)
    return fail(ErrorCode::unavailable, library.string() + " is no simulator of gpuwarden");
  return simulator;
}

Simulator::~Simulator() {
  if (call_ != nullptr) [[maybe_unused]]
    const auto detached = call({{"op", "detach"}});
}

fs::path Simulator::library(int profile) const { return libraries_ / std::to_string(profile) / "libnvidia-ml.so.1"; }

Result<Json> Simulator::call(const Json& request) {
  char* reply = nullptr;
  call_(request.dump(-1, ' ', false, Json::error_handler_t::replace).c_str(), &reply);
  const std::unique_ptr<char, void (*)(void*)> owner(reply, std::free);
  Json answer = reply != nullptr ? Json::parse(reply, nullptr, false) : Json();
  if (!answer.is_object()) return fail(ErrorCode::failed, "the simulator gave no answer");
  if (!answer.contains("error")) return answer;
  const bool unfound = answer.value("code", "") == "not_found" || answer.value("code", "") == "invalid_argument";
  return fail(unfound ? ErrorCode::invalid_argument : ErrorCode::failed, answer["error"].get<std::string>(),
              answer.value("hint", ""));
}

Result<Machine> simulate(const Environment& environment, const std::string& spec) {
  Machine machine;
  GPUWARDEN_TRY(machine.simulator, Simulator::open(environment));
  GPUWARDEN_TRY(const std::string resolved, resolve_spec(spec, environment));
  GPUWARDEN_TRY(const Json fleet, machine.simulator->call({{"op", "attach"}, {"spec", resolved}}));
  machine.fleet_folder = fleet["folder"].get<std::string>();
  const fs::path library = machine.simulator->library(fleet["library_profile"].get<int>());
  machine.library_folder = library.parent_path().string();
  // The reader's process, another profile's library and the job's own programs find the fleet through these.
  ::setenv("GPUWARDEN_SIM_FLEET", machine.fleet_folder.c_str(), 1);
  machine.reader.nvml_library = library;
  machine.reader.sys_root = fleet["sys_root"].get<std::string>();
  machine.reader.driver_proc_root = fleet["proc_root"].get<std::string>();
  machine.reader.proc_roots = {fleet["proc_root"].get<std::string>(), "/proc"};
  machine.reader.simulated = true;
  machine.reader.probe = probe::ProbeChoice::nvml;  // nvidia-smi would tell of this machine's GPUs
  machine.reader.fleet = fleet["name"].get<std::string>();
  return machine;
}

Environment simulated_environment(const Machine& machine, const Environment& of_program) {
  if (!machine.simulated()) return {};
  Environment result{{"GPUWARDEN_SIMULATE", machine.fleet_folder}};
  const auto value = [&](const char* name) {
    const auto found = of_program.find(name);
    return found == of_program.end() ? std::string() : found->second;
  };
  if (value("GPUWARDEN_SIM_LIBRARIES") == "off") return result;
  const std::string before = value("LD_LIBRARY_PATH");
  result["LD_LIBRARY_PATH"] = machine.library_folder + (before.empty() ? "" : ":" + before);
  return result;
}

Result<capture::Capture> read_captures(const std::vector<std::string>& files) {
  capture::Capture whole;
  for (const std::string& file : files) {
    GPUWARDEN_TRY(capture::Capture part, read_one_capture(file));
    if (whole.parts.empty())
      whole = std::move(part);
    else
      capture::add_capture(whole, std::move(part));
  }
  for (const std::string& warning : whole.warnings) warn(printable(warning));
  return whole;
}

namespace {

/// The folder that --root names, without links; "/" where none is given.
std::string root_of(const Args& args) {
  std::error_code error;
  const fs::path root = fs::canonical(args.text("root").value_or("/"), error);
  return error ? args.text("root").value_or("/") : root.string();
}

/// Another machine's files are not judged by this shell's variables, but by those a login there would have at least.
void enter(probe::SurveyRequest& request) {
  request.variables = {{"HOME", "/root"},
                       {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/cuda/bin"}};
  request.working_directory = "/root";
}

}  // namespace

void lengthen_deadline(const Context& context, probe::SurveyRequest& request) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1);
  const auto timeout = duration_option(context.args, "timeout");
  if (timeout && *timeout) request.deadline = std::max(request.deadline, std::min(**timeout, kLongest));
}

facts::Snapshot read_everything(const Context& context, const Machine& machine, const probe::ReadRequest& gpus) {
  const std::string root = root_of(context.args);
  const bool elsewhere = root != "/";
  facts::Snapshot snapshot = machine.captured ? *machine.captured : elsewhere ? facts::Snapshot{} : machine.read(gpus);
  if (elsewhere && !machine.captured) snapshot.origin = root;
  const bool here = !machine.captured && !machine.simulated();
  if (!here && !elsewhere) return snapshot;
  if (!context.args.has("no-environment")) {
    probe::SurveyRequest request{.root = root, .variables = context.environment};
    std::error_code ignored;
    request.working_directory = fs::current_path(ignored);
    if (elsewhere) enter(request);
    request.start_pythons = context.args.has("ask-pythons");
    lengthen_deadline(context, request);
    snapshot.environment = probe::survey(request);
  }
  if (!here || elsewhere || snapshot.gpus.empty()) return snapshot;
  auto faults = probe::read_kernel_faults(std::chrono::seconds(2));
  if (faults) {
    snapshot.kernel_faults = std::move(*faults);
  } else if (snapshot.environment) {
    snapshot.environment->not_probed.push_back({"kernel log", faults.error().message});
  }
  return snapshot;
}

facts::Snapshot Machine::read(const probe::ReadRequest& request) const {
  return captured ? *captured : probe::MachineReader(reader).read(request);
}

Result<Machine> open_machine(Context& context) {
  std::error_code ignored;
  if (const auto root = context.args.text("root"); root && !fs::is_directory(*root, ignored))
    return fail(ErrorCode::invalid_argument, fmt::format("--root: '{}' is no folder", printable(*root)),
                "name the folder below which the other system's etc, usr and lib lie");
  if (context.args.has("from")) {
    if (context.args.has("simulate"))
      return fail(ErrorCode::invalid_argument, "--from and --simulate cannot be given together",
                  "--simulate FILE makes a simulated fleet of a capture, --from FILE only looks at it");
    const auto files = context.args.list("from");
    GPUWARDEN_TRY(capture::Capture capture, read_captures(files));
    Machine machine;
    machine.captured = std::move(capture.snapshot);
    machine.capture_name = files.empty() || files[0] == "-" ? "standard input" : files[0];
    return machine;
  }
  Machine machine;
  auto spec = context.args.text("simulate");
  if (!spec) spec = variable(context.environment, "GPUWARDEN_SIMULATE");
  if (spec) {
    GPUWARDEN_TRY(machine, simulate(context.environment, *spec));
  }
  GPUWARDEN_TRY(const auto timeout, duration_option(context.args, "timeout"));
  if (timeout) machine.reader.timeout = std::max(*timeout, std::chrono::milliseconds(1));
  machine.reader.wake = context.args.has("wake");
  GPUWARDEN_CHECK(choose_probe(context, machine, machine.reader));
  if (const auto library = variable(context.environment, "GPUWARDEN_NVML_LIBRARY"))
    machine.reader.nvml_library = *library;
  if (const auto root = variable(context.environment, "GPUWARDEN_SYS_ROOT")) machine.reader.sys_root = *root;
  if (const auto root = variable(context.environment, "GPUWARDEN_PROC_ROOT")) {
    machine.reader.driver_proc_root = *root;
    machine.reader.proc_roots.insert(machine.reader.proc_roots.begin(), *root);
  }
  return machine;
}

std::filesystem::path lease_directory(const Context& context) {
  const auto given = variable(context.environment, "GPUWARDEN_LEASE_DIR");
  return given ? std::filesystem::path(*given) : lease::StoreOptions{}.directory;
}

Result<lease::LeaseStore> open_leases(const Context& context, const Machine& machine, const std::string& run_id,
                                      const std::string& command) {
  lease::StoreOptions options;
  options.directory = lease_directory(context);
  options.directory_required = variable(context.environment, "GPUWARDEN_LEASE_DIR").has_value();
  if (machine.simulated()) options.prefix = lease::kSimulatedPrefix;
  options.self = {Pid{::getpid()}, user_name(), run_id, command, system_clock().wall_now()};
  return lease::LeaseStore::open(options, system_clock());
}

}  // namespace gpuwarden::cli
