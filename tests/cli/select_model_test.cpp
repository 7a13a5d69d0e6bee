// SPDX-License-Identifier: Apache-2.0
// As many GPUs as a model needs, as a user of select, run and lease meets it.
#include <set>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "support/source_folder.hpp"

namespace gpuwarden {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Program;

/// Four H100, of which two are in use.
constexpr std::string_view kBusy = R"(name: busy
driver: 550.54.15
cuda: "12.4"
clock: {frozen: true}
gpus:
  - model: NVIDIA H100 80GB HBM3
    processes: [{pid: 4194001, user: ada, command: python train.py, memory: 60GiB, utilization: 97}]
  - model: NVIDIA H100 80GB HBM3
    processes: [{pid: 4194002, user: bob, command: vllm serve, memory: 30GiB, utilization: 10}]
  - model: NVIDIA H100 80GB HBM3
  - model: NVIDIA H100 80GB HBM3
)";

class SelectModel : public Program {
 protected:
  nlohmann::json select(std::vector<std::string> words) const {
    words.insert(words.begin(), "select");
    return json(std::move(words));
  }
};

TEST_F(SelectModel, TakesTheFewestGpusAndSaysWhyInTheContractsJson) {
  const auto one = select({"--model", "gpt2", "--simulate", "h100x8"});
  EXPECT_EQ(one["selected"].size(), 1U);
  EXPECT_EQ(one["strategy"], "single");
  const auto several = select({"--model", "llama-3.1-70b", "--task", "inference", "--simulate", "h100x8"});
  ASSERT_GE(several["selected"].size(), 2U);
  EXPECT_EQ(several["strategy"], "fsdp");
  EXPECT_EQ(several["simulated"], true);
  const auto& model = several["model"];
  EXPECT_EQ(model["name"], "meta-llama/Llama-3.1-70B");
  EXPECT_THAT(model["verdict"], AnyOf("fits", "tight"));
  EXPECT_EQ(model["gpus"], several["selected"].size());
  EXPECT_EQ(model["gpu"], "NVIDIA H100 80GB HBM3");
  EXPECT_LE(model["low_bytes"], model["expected_bytes"]);
  EXPECT_LE(model["expected_bytes"], model["high_bytes"]);
  EXPECT_GE(model["room_bytes"], model["needed_free_bytes"]);
  EXPECT_EQ(model["settings"]["task"], "inference");
  EXPECT_TRUE(model["changes"].empty());
  EXPECT_THAT(model["reason"].get<std::string>(), HasSubstr("does not fit"));
  EXPECT_TRUE(select({"-n", "1", "--simulate", "h100x8"})["model"].is_null());
}

TEST_F(SelectModel, ThePlanIsToldBesideTheValue) {
  const auto done = run({"select", "--model", "llama-3.1-8b", "--task", "lora", "--simulate", "h100x8"});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_TRUE(done.standard_output.starts_with("GPU-"));
  EXPECT_THAT(done.standard_error, HasSubstr("gpuwarden: meta-llama/Llama-3.1-8B fits one NVIDIA H100 80GB HBM3"));
  EXPECT_EQ(run({"select", "--model", "gpt2", "--json", "--simulate", "h100x8"}).standard_error, "");
}

TEST_F(SelectModel, TakesEverySettingOfPlanThatMemoryDependsOn) {
  const auto needed = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--model", "llama-3.1-8b", "-n", "8", "--simulate", "h100x8"});
    const auto answer = select(more)["model"];
    return answer.is_object() ? answer["expected_bytes"].get<double>() : -1;
  };
  const double usual = needed({"--recompute", "full"});
  EXPECT_GT(usual, 0);
  EXPECT_GT(needed({"--recompute", "full", "--micro-batch", "8"}), usual);
  EXPECT_GT(needed({"--recompute", "full", "--sequence", "30000"}), usual);
  EXPECT_LT(needed({"--recompute", "full", "--optimizer", "sgd"}),
            needed({"--recompute", "full", "--strategy", "ddp"}));
  EXPECT_LT(needed({"--task", "qlora"}), usual);
  const auto fixed =
      select({"--model", "llama-3.1-8b", "--tensor-parallel", "4", "--task", "inference", "--simulate", "h100x8"});
  EXPECT_EQ(fixed["model"]["strategy"], "TP 4");
  EXPECT_EQ(fixed["selected"].size(), 4U);
  EXPECT_LT(needed({"--task", "lora", "--lora-rank", "8"}), needed({"--task", "lora", "--lora-rank", "512"}));
}

TEST_F(SelectModel, AgreesWithPlan) {
  for (const char* task : {"train", "lora", "inference"}) {
    const auto chosen = select({"--model", "qwen2.5-14b", "--task", task, "--simulate", "h100x8"});
    ASSERT_EQ(chosen["satisfied"], true) << task;
    const std::string spec = std::to_string(chosen["selected"].size()) + "xh100";
    const auto plan = json({"plan", "qwen2.5-14b", "--task", task, "--micro-batch", "1", "--gpus", spec});
    EXPECT_NE(plan["verdict"], "does_not_fit") << task;
    EXPECT_EQ(plan["recommended"]["name"], chosen["model"]["strategy"]) << task;
    EXPECT_EQ(plan["recommended"]["expected_bytes"], chosen["model"]["expected_bytes"]) << task;
  }
}

TEST_F(SelectModel, ASizeIsOfParametersOrOfWeights) {
  const auto trained = select({"--model-size", "7B", "--simulate", "h100x8"});
  EXPECT_EQ(trained["model"]["settings"]["task"], "full_training");
  EXPECT_THAT(trained["model"]["reason"].get<std::string>(), HasSubstr("its shape is a guess"));
  const auto plan = json(
      {"plan", "--params", "7B", "--micro-batch", "1", "--gpus", std::to_string(trained["selected"].size()) + "xh100"});
  EXPECT_EQ(plan["recommended"]["expected_bytes"], trained["model"]["expected_bytes"]);
  const auto held = select({"--simulate", "a100x4", "--model-size", "140GB"});
  EXPECT_EQ(held["selected"].size(), 2U);
  EXPECT_EQ(held["strategy"], "fsdp");
  EXPECT_EQ(held["model"]["settings"]["task"], "inference");
  const auto named = select({"--simulate", "a100x4", "--model-size", "70B", "--task", "inference"});
  EXPECT_EQ(named["model"]["expected_bytes"], held["model"]["expected_bytes"]) << "two bytes of each parameter";
}

TEST_F(SelectModel, WhatDoesNotFitNamesTheWaysOut) {
  const auto done = run({"select", "--model", "llama-3.1-8b", "--task", "train", "--simulate", "rtx4090x2"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_EQ(done.standard_output, "");
  EXPECT_THAT(done.standard_error, HasSubstr("does not fit 2 x NVIDIA GeForce RTX 4090 for full training"));
  EXPECT_THAT(done.standard_error, HasSubstr("hint: what would make it fit, cheapest first:\n  "));
  const auto answer = select({"--model", "llama-3.1-8b", "--task", "train", "--simulate", "rtx4090x2"});
  EXPECT_EQ(answer["satisfied"], false);
  EXPECT_EQ(answer["model"]["verdict"], "does_not_fit");
  ASSERT_FALSE(answer["model"]["changes"].empty());
  EXPECT_TRUE(answer["model"]["changes"][0].contains("what"));
}

TEST_F(SelectModel, GpusInUseAreLeftToTheirUsers) {
  const std::string busy = file("busy.yaml", kBusy);
  const auto two = select({"--model", "llama-3.1-70b", "--task", "inference", "--simulate", busy});
  ASSERT_EQ(two["satisfied"], true) << two;
  EXPECT_EQ(two["selected"][0]["index"], 2);
  EXPECT_EQ(two["selected"][1]["index"], 3);
  const auto waits = run({"select", "--model", "llama-3.1-70b", "--task", "inference", "--sequence", "131072",
                          "--micro-batch", "3", "--simulate", busy});
  EXPECT_EQ(waits.exit_code, 1);
  EXPECT_THAT(waits.standard_error, HasSubstr("GPU 0: in use by ada"));
  EXPECT_THAT(waits.standard_error, HasSubstr("--wait"));
  const auto shared =
      select({"--model", "llama-3.1-8b", "--task", "inference", "--allow-busy", "--prefer", "1", "--simulate", busy});
  EXPECT_EQ(shared["selected"][0]["index"], 1) << "49 GiB are free there";
  EXPECT_LT(shared["model"]["room_bytes"], 50ULL << 30U);
}

TEST_F(SelectModel, RunAndLeaseTakeTheSameOptions) {
  const auto done = run({"run", "--simulate", "h100x8", "--model", "llama-3.1-70b", "--task", "inference",
                         "--no-report", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr(",GPU-"));
  EXPECT_THAT(done.standard_error, HasSubstr("Llama-3.1-70B fits"));
  const auto none = run({"run", "--simulate", "rtx4090x2", "--model", "llama-3.1-405b", "--", "true"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.standard_error, HasSubstr("does not fit"));
  const auto leased =
      run({"lease", "--simulate", "h100x8", "--model-size", "140GB", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"});
  EXPECT_EQ(leased.exit_code, 0) << leased.standard_error;
  EXPECT_THAT(leased.standard_output, HasSubstr(",GPU-"));
  EXPECT_EQ(run({"run", "--quiet", "--simulate", "h100x8", "--model", "gpt2", "--", "true"}).standard_error, "");
}

TEST_F(SelectModel, AConfigurationMayNameTheModelToo) {
  const std::string config = file("job.yaml",
                                  "distributed: {strategy: ddp}\n"
                                  "selection: {model: llama-3.2-1b, task: train, micro_batch: 2}\n"
                                  "run: {log_dir: " +
                                      (dir_ / "logs").string() + "}\n");
  const auto chosen = select({"--config", config, "-n", "2", "--simulate", "h100x8"});
  EXPECT_EQ(chosen["model"]["strategy"], "DDP over 2");
  EXPECT_EQ(chosen["model"]["settings"]["micro_batch"], 2);
  EXPECT_EQ(run({"run", "--config", config, "--simulate", "h100x8", "-q", "--", "true"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_directory(dir_ / "logs")) << "run: of the file has its effect";
  environment_["GPUWARDEN_MODEL"] = "gpt2";
  EXPECT_EQ(select({"--simulate", "h100x8"})["model"]["name"], "openai-community/gpt2");
}

TEST_F(SelectModel, AConfigurationsModelOffloadAndTypeReachTheFit) {
  const auto with = [&](const std::string& distributed, const std::string& more) {
    return file("guide.yaml", "distributed: {enabled: true, " + distributed + "}\nmodel: {" + more + "}\n");
  };
  const std::string eight = "num_gpus: 8, strategy: fsdp";
  const std::string large = "model_name_or_path: meta-llama/Llama-2-70b-hf, torch_dtype: bfloat16";
  const auto kept = select({"--config", with(eight, large), "--simulate", "h100x8"});
  EXPECT_EQ(kept["model"]["name"], "meta-llama/Llama-2-70b-hf");
  EXPECT_EQ(kept["satisfied"], false) << "weights, gradients and states of 70 B are more than 640 GB";
  const auto offloaded = select({"--config", with(eight + ", fsdp_cpu_offload: true", large), "--simulate", "h100x8"});
  EXPECT_EQ(offloaded["satisfied"], true);
  EXPECT_EQ(offloaded["model"]["settings"]["offload"], "all");
  const std::string small = "model_name_or_path: gpt2, torch_dtype: float32";
  EXPECT_EQ(select({"--config", with("num_gpus: 2", small), "--simulate", "h100x8"})["model"]["settings"]["precision"],
            "fp32");
  const auto unknown =
      run({"select", "--config", with("num_gpus: 2", "model_name_or_path: my/own"), "--simulate", "h100x8"});
  EXPECT_EQ(unknown.exit_code, 0);
  EXPECT_THAT(unknown.standard_error, HasSubstr("what it needs is not planned"));
}

TEST_F(SelectModel, AConfigurationsOtherSectionsAreNoted) {
  const std::string config = file("job.yaml", "training: {lr: 0.1}\ndistributed: {num_gpus: 2}\n");
  const auto done = run({"select", "--config", config, "--simulate", "h100x8"});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_THAT(done.standard_error, HasSubstr("'training' is left to the program"));
}

TEST_F(SelectModel, AModelDoesNotMakeTheConfigurationsGpusForgotten) {
  const auto chosen = [&](const std::string& distributed, std::vector<std::string> more) {
    const std::string config = file("job.yaml", "distributed: {" + distributed + "}\n" + more.front());
    more.erase(more.begin());
    more.insert(more.end(), {"--config", config, "--simulate", "h100x8"});
    std::vector<int> indices;
    const auto answer = select(more);
    for (const auto& gpu : answer["selected"]) indices.push_back(gpu["index"].get<int>());
    return indices;
  };
  using Indices = std::vector<int>;
  const std::string model = "selection: {model: gpt2, task: inference}\n";
  EXPECT_EQ(chosen("enabled: true, gpu_ids: [2, 3]", {model}), Indices({2, 3}));
  EXPECT_EQ(chosen("enabled: true, gpu_ids: [2, 3]", {"", "--model", "gpt2"}), Indices({2, 3}));
  EXPECT_EQ(chosen("enabled: true, num_gpus: 3", {model}).size(), 3U);
  EXPECT_EQ(chosen("enabled: true, num_gpus: 3", {"", "--model-size", "7B"}).size(), 3U);
  EXPECT_EQ(chosen("enabled: true, gpu_ids: [2, 3]", {model, "-n", "1"}).size(), 1U) << "the command line has its say";
  const std::string large = "selection: {model: llama-3.1-70b, task: inference}\n";
  EXPECT_EQ(chosen("enabled: false", {large}), Indices{}) << "one GPU is too few";
  EXPECT_EQ(chosen("enabled: true", {large}).size(), 2U);
}

TEST_F(SelectModel, WordsMeanTheSameHoweverTheyAreWritten) {
  const std::vector<std::string> gpt2{"--model", "gpt2", "--simulate", "h100x8"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), gpt2.begin(), gpt2.end());
    return select(words);
  };
  EXPECT_EQ(with({"--strategy", "Single"})["selected"].size(), 1U);
  expect_error({"select", "--strategy", " SINGLE", "-n", "2", "--model", "gpt2", "--simulate", "h100x8"}, 2,
               "--strategy single is one GPU");
  const std::string config = file("ddp.yaml", "distributed: {strategy: ddp}\n");
  EXPECT_EQ(with({"--config", config, "--task", "Serve"})["satisfied"], true) << "an engine has no such strategy";
  EXPECT_EQ(json({"plan", "gpt2", "--gpus", "4xh100", "--strategy", "Single"})["gpus"]["count"], 1);
}

TEST_F(SelectModel, AWorkstationAndInstancesAreMachinesToo) {
  const std::string workstation = file("one.yaml", "name: one\ngpus:\n  - model: NVIDIA GeForce RTX 3090\n");
  EXPECT_EQ(run({"select", "--model", "llama-3.1-8b", "--task", "qlora", "--simulate", workstation}).exit_code, 0);
  EXPECT_EQ(run({"select", "--model", "llama-3.1-70b", "--task", "qlora", "--simulate", workstation}).exit_code, 1);
  const auto mig = select({"--mig", "--model", "gpt2", "--task", "inference", "--simulate", "a100-40x8-mig"});
  ASSERT_EQ(mig["satisfied"], true) << mig;
  EXPECT_FALSE(mig["selected"][0]["mig"].is_null());
  EXPECT_EQ(mig["selected"].size(), 1U);
  EXPECT_THAT(run({"select", "--mig", "--model", "llama-3.1-70b", "--task", "inference", "--simulate", "a100-40x8-mig"})
                  .standard_error,
              HasSubstr("an instance holds a whole model or none"));
}

TEST_F(SelectModel, WhereGpusAreTooFewTheModelIsNotBlamed) {
  const auto many = run({"select", "-n", "9", "--model", "gpt2", "--simulate", "h100x8"});
  EXPECT_EQ(many.exit_code, 1);
  EXPECT_THAT(many.standard_error, HasSubstr("9 GPUs were requested, but this machine has 8 GPUs"));
  EXPECT_THAT(many.standard_error, Not(HasSubstr("enough")));
}

TEST_F(SelectModel, BadModelsAndSizesAreToldClearly) {
  const auto refused = [&](std::vector<std::string> words, const std::string& what) {
    words.insert(words.begin(), {"select", "--simulate", "h100x8"});
    expect_error(words, 2, what);
  };
  refused({"--model", "nonesuch-7b"}, "no model 'nonesuch-7b'");
  refused({"--model", "gpt2", "--model-size", "7B"}, "--model and --model-size cannot be used together");
  refused({"--model-size", "7x"}, "'7x' is neither a number of parameters nor a size of weights");
  refused({"--model-size", "8x7B"}, "8x7B");
  refused({"--model-size", "0B"}, "--model-size");
  refused({"--model-size", "1KiB"}, "--model-size");
  refused({"--model-size", ""}, "--model-size");
  refused({"--model-size", "140GB", "--layers", "80"}, "--layers");
  refused({"--model-size", "7B", "--family", "gpt2"}, "--family");
  refused({"--model", "gpt2", "--hidden", "64"}, "--hidden completes --model-size");
  refused({"--model", "gpt2", "--family", "llama"}, "its own family");
  refused({"--task", "lora"}, "--task is about a model, but none is named");
  refused({"--model", "gpt2", "--task", "dance"}, "unknown task 'dance'");
  refused({"--model", "gpt2", "--task", "serve", "--optimizer", "lion"}, "--optimizer");
  refused({"--model", "gpt2", "--sequence", "4096"}, "only 1024 positions");
  refused({"--model", "gpt2", "--quantization", "nf4"}, "cannot be trained");
  refused({"--model", "gpt2", "--task", "inference", "--prompt", "2000"}, "longer than the sequence");
  refused({"--model", "gpt2", "--task", "serve", "--utilization", "180%"}, "180");
  refused({"--model", "gpt2", "--strategy", "single", "-n", "2"}, "--strategy single");
  file("empty/readme.txt", "");
  refused({"--model", (dir_ / "empty").string()}, "no config.json");
  refused({"--model", "./missing"}, "./missing");
  EXPECT_THAT(run({"select", "--model", "lama-3.1-8b", "--simulate", "h100x8"}).standard_error,
              HasSubstr("known: meta-llama/Llama-3.1-8B"));
}

/// Names of all members, but for moments' components, which are named by what uses memory.
void collect_keys(const nlohmann::json& value, std::set<std::string>& keys) {
  if (!value.is_structured()) return;
  for (const auto& [key, member] : value.items()) {
    if (value.is_object()) keys.insert(key);
    if (key != "components" || member.is_array()) collect_keys(member, keys);
  }
}

TEST_F(SelectModel, EveryKeyOfItsJsonAndOfPlansIsDocumented) {
  const auto path = testing::source_folder() / "docs/json.md";
  const std::string documented = read_file(path).value_or("");
  ASSERT_FALSE(documented.empty()) << path;
  const std::vector<nlohmann::json> answers{
      select({"--model", "llama-3.1-8b", "--task", "lora", "--simulate", "h100x8"}),
      select({"--model", "llama-3.1-8b", "--simulate", "rtx4090x2"}),
      json({"plan", "llama-3.1-8b", "--gpus", "8xh100", "--tokens", "1B", "--cpus", "64"}),
      json({"plan", "llama-3.1-8b", "--gpus", "rtx4090"}),
      json({"plan", "llama-3.1-8b", "--gpus", "h100", "--task", "serve"}),
      json({"plan", "gpt2", "--gpus", "l4", "--calibrate", "1=2,2=3"}),
      json({"plan", "--list"})};
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer.is_object());
    std::set<std::string> keys;
    collect_keys(answer, keys);
    EXPECT_GE(keys.size(), 5U);
    for (const std::string& key : keys) EXPECT_THAT(documented, HasSubstr("\"" + key + "\"")) << key;
  }
}

TEST_F(SelectModel, WaitingEndsWhenAsManyAreFreeAsTheModelTakes) {
  const auto held = run({"run",
                         "-q",
                         "--simulate",
                         "h100x8",
                         "-n",
                         "7",
                         "--",
                         "python3",
                         "-c",
                         "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))",  // inherits no locks
                         GPUWARDEN_PROGRAM,
                         "run",
                         "--simulate",
                         "h100x8",
                         "--model",
                         "llama-3.1-70b",
                         "--task",
                         "inference",
                         "--wait=200ms",
                         "--",
                         "true"});
  EXPECT_EQ(held.exit_code, 1);
  EXPECT_THAT(held.standard_error, HasSubstr("timed out after"));
  EXPECT_THAT(held.standard_error, HasSubstr("leased by"));
  EXPECT_EQ(run({"run", "-q", "--simulate", "h100x8", "--model", "llama-3.1-70b", "--task", "inference", "--wait=60s",
                 "--", "true"})
                .exit_code,
            0);
}

TEST_F(SelectModel, ACaptureIsAMachineToo) {
  const std::string capture =
      file("smi.txt",
           "| NVIDIA-SMI 535.104.12             Driver Version: 535.104.12   CUDA Version: 12.2     |\n"
           "|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:2D:00.0 Off |                    0 |\n"
           "| N/A   36C    P0              61W / 400W |      4MiB / 81920MiB |      0%      Default |\n");
  EXPECT_EQ(run({"select", "--model", "llama-3.1-8b", "--task", "lora", "--from", capture}).exit_code, 0);
  const auto none = run({"select", "--model", "llama-3.1-70b", "--task", "lora", "--from", capture});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.standard_error, HasSubstr("what would make it fit"));
}

TEST_F(SelectModel, WhatIsPickedByHandIsJudged) {
  const std::vector<std::string> words{"select", "--interactive", "--model",    "llama-3.1-8b",
                                       "--task", "inference",     "--simulate", "mixed"};
  const auto list = json({"list", "--simulate", "mixed"});
  EXPECT_EQ(run(words, "1\n").standard_output, list["gpus"][1]["uuid"].get<std::string>() + "\n");
  const auto small = run(words, "0\n");
  EXPECT_EQ(small.exit_code, 1);
  EXPECT_THAT(small.standard_error, HasSubstr("does not fit one Tesla T4"));
}

TEST_F(SelectModel, HelpHasTheModelsOptionsOfPlan) {
  const std::string plan = run({"plan", "--help"}).standard_output;
  for (const char* command : {"select", "run", "lease"}) {
    const std::string help = run({command, "--help"}).standard_output;
    for (const char* option : {"--task", "--lora-rank", "--recompute", "--strategy", "--utilization"}) {
      EXPECT_THAT(help, HasSubstr(option)) << command;
      EXPECT_THAT(plan, HasSubstr(option));
    }
    EXPECT_THAT(help, Not(HasSubstr("--mfu"))) << "no matter of memory";
  }
}

}  // namespace
}  // namespace gpuwarden
