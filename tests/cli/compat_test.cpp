// SPDX-License-Identifier: Apache-2.0
// gpuwarden compat, and the knowledge of a site, as a user meets them. Places are always named: what machine the tests
// run on does not matter.
#include <algorithm>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"

namespace gpuwarden {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Program;

class Compat : public Program {
 protected:
  nlohmann::json answer(std::vector<std::string> words) const {
    words.insert(words.begin(), "compat");
    return json(std::move(words))["answer"];
  }
};

TEST_F(Compat, TellsHowToolkitsRunOnADriver) {
  const auto list = answer({"--driver", "550.54.15", "--gpu", "H100"})["toolkits"];
  const auto how = [&](const std::string& cuda) {
    const auto row = std::ranges::find_if(list, [&](const auto& one) { return one["cuda"] == cuda; });
    return row == list.end() ? "" : (*row)["runs"].get<std::string>();
  };
  EXPECT_EQ(how("11.8"), "natively");
  EXPECT_EQ(how("12.4"), "natively");
  EXPECT_EQ(how("12.8"), "by minor-version compatibility");
  EXPECT_EQ(how("13.0"), "with the cuda-compat package");
  const auto done = run({"compat", "--driver", "550.54.15", "--gpu", "RTX 4090"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, Not(HasSubstr("cuda-compat"))) << "not for consumers' GPUs";
  EXPECT_THAT(done.standard_output, HasSubstr("not at all"));
  EXPECT_THAT(done.standard_output, HasSubstr("pip install torch=="));
}

TEST_F(Compat, AToolkitThatDoesNotRunIsInNoRangeOfThoseThatDo) {
  const std::string text = run({"compat", "driver", "550.54.15"}).standard_output;
  EXPECT_THAT(text, Not(HasSubstr("13.0 to 13.4"))) << text;
  EXPECT_THAT(text, HasSubstr("13.0 to 13.1, 13.3 to 13.4  with the cuda-compat package"));
}

TEST_F(Compat, ADriverThatDoesNotKnowTheGpuComesFirst) {
  const auto done = run({"compat", "--driver", "550.54.15", "--gpu", "RTX 5090", "--on", "2026-11"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.standard_output, HasSubstr("driver 550.54.15 does not know it: 570.86.16 or newer"));
  EXPECT_THAT(done.standard_output, HasSubstr("  driver       580 (long-term support"));
  const auto branch = run({"compat", "torch", "--gpu", "RTX 5090", "--driver", "570"});
  EXPECT_THAT(branch.standard_error, HasSubstr("of this branch 570.86.16 and newer know the GPU"));
  EXPECT_EQ(branch.standard_output.find("none runs"), std::string::npos) << branch.standard_output;
  const auto volta = answer({"--driver", "590.44.01", "--gpu", "V100"});
  EXPECT_THAT(volta["obstacles"][0].get<std::string>(), HasSubstr("580 is the last"));
}

TEST_F(Compat, NoWheelRunsWhereTheDriverDoesNotKnowTheGpu) {
  const auto all = run({"compat", "torch", "--gpu", "H100", "--driver", "470"});
  EXPECT_EQ(all.exit_code, 1);
  EXPECT_THAT(all.standard_output, HasSubstr("none runs: NVIDIA H100 80GB HBM3: driver 470 does not know it"));
  EXPECT_THAT(all.standard_output, Not(HasSubstr("wheels that run here")));
  const auto one = run({"compat", "torch==2.7.1+cu118", "--gpu", "H100", "--driver", "470"});
  EXPECT_EQ(one.exit_code, 1);
  EXPECT_THAT(one.standard_output, HasSubstr("2.7.1+cu118: no: the driver does not serve the GPU"));
}

TEST_F(Compat, AnswersForASimulatedMachineAndForACapture) {
  const auto node = json({"compat", "--simulate", "h100x8"});
  EXPECT_EQ(node["simulated"], true);
  EXPECT_EQ(node["place"]["driver"], "550.54.15");
  EXPECT_EQ(node["place"]["gpus"][0]["count"], 8);
  EXPECT_EQ(node["place"]["gpus"][0]["compute_capability"], "9.0");
  EXPECT_THAT(node["answer"]["recommended"]["torch"].get<std::string>(), HasSubstr("+cu12"));
  const auto smi = file("smi.txt",
                        "| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 11.4     |\n"
                        "GPU 0: Tesla T4 (UUID: GPU-aaaaaaaa-1111-2222-3333-444444444440)\n");
  const auto text = run({"compat", "--from", smi}).standard_output;
  EXPECT_TRUE(text.starts_with("FROM ")) << text;
  EXPECT_THAT(text, HasSubstr("Tesla T4"));
  EXPECT_EQ(json({"compat", "--from", smi})["place"]["driver"], "470.82.01");
  EXPECT_EQ(json({"compat", "--from", smi, "--driver", "580.65.06"})["place"]["driver"], "580.65.06")
      << "what if it had another driver";
}

TEST_F(Compat, AnOrinIsSentToTheSameBuildsByEveryQuestion) {
  const std::vector<std::string> questions[] = {{"compat", "--gpu", "Orin"},
                                                {"compat", "torch", "--gpu", "Jetson AGX Orin"},
                                                {"compat", "vllm", "--gpu", "Orin"}};
  for (const auto& words : questions) {
    const auto done = run(words);
    EXPECT_EQ(done.exit_code, 0) << words[1];
    EXPECT_THAT(done.standard_output, HasSubstr("https://pypi.jetson-ai-lab.io/jp6/cu126"));
    EXPECT_THAT(done.standard_output, Not(HasSubstr("pip install"))) << words[1];
  }
  EXPECT_EQ(run({"compat", "torch==2.9.1", "--gpu", "Orin"}).exit_code, 1);
}

TEST_F(Compat, AReportsCudaIsAsItStandsThereAndItsTorchIsJudged) {
  const auto smi = file("smi.txt",
                        "| NVIDIA-SMI 535.104.05    Driver Version: 535.104.05    CUDA Version: 12.4     |\n"
                        "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-aaaaaaaa-1111-2222-3333-444444444440)\n");
  EXPECT_THAT(run({"compat", "--from", smi}).standard_output, HasSubstr("offers CUDA 12.4"));
  EXPECT_EQ(json({"compat", "--from", smi})["place"]["cuda"], "12.4");
  EXPECT_EQ(json({"compat", "--from", smi, "--driver", "580"})["place"]["cuda"], nullptr) << "another driver's";
  const auto report = file("env.txt",
                           "PyTorch version: 2.5.1+cu121\nCUDA used to build PyTorch: 12.1\n"
                           "GPU models and configuration: GPU 0: NVIDIA GeForce RTX 5090\n"
                           "Nvidia driver version: 470.82.01\n");
  const auto done = run({"compat", "--from", report});
  EXPECT_EQ(done.exit_code, 1);
  const std::string& text = done.standard_output;
  ASSERT_THAT(text, HasSubstr("is installed (2.5.1+cu121, CUDA 12.1) has no"));
  EXPECT_LT(text.find("CUDA 12.1) has no"), text.find("does not know it"));
}

TEST_F(Compat, WhatNoDriverHelpsIsSaidToBeSo) {
  const auto matrix = run({"compat", "cu130", "--matrix", "--gpu", "V100 32GB"});
  EXPECT_EQ(matrix.exit_code, 1);
  EXPECT_THAT(matrix.standard_output, HasSubstr("384      not at all  -"));
  EXPECT_THAT(run({"compat", "torch==2.11+cu130", "--gpu", "V100", "--driver", "550"}).standard_output,
              HasSubstr("2.11.0+cu130: no: has no code for the GPU"));
  const auto cpu = run({"compat", "torch==2.5.1+cpu", "--gpu", "K80", "--driver", "390.77"});
  EXPECT_EQ(cpu.exit_code, 0);
  EXPECT_THAT(cpu.standard_output, HasSubstr("it does not use the GPU, and needs no driver"));
  const auto flash = run({"compat", "flash-attn", "--gpu", "T4"});
  EXPECT_EQ(flash.exit_code, 1);
  EXPECT_THAT(flash.standard_output, HasSubstr("no: Tesla T4 has compute capability 7.5\n\nas its maintainers say\n"));
  EXPECT_THAT(run({"compat", "cudnn", "--gpu", "T4"}).standard_output, HasSubstr("not judged: "));
}

TEST_F(Compat, AndPlanTakeTheSameNamesAndRefuseTheSame) {
  for (const char* name : {"4090", "rtx4090", "V100 32GB", "H100 NVL", "gh200"}) {
    const auto compat = json({"compat", "--gpu", name});
    const auto plan = json({"plan", "llama-3.2-1b", "--gpus", name});
    EXPECT_EQ(compat["answer"]["name"], plan["gpus"]["name"]) << name;
  }
  const std::vector<std::string> questions[] = {{"compat", "MI300X"},
                                                {"compat", "--gpu", "MI300X"},
                                                {"compat", "torch", "--gpu", "MI300X"},
                                                {"plan", "llama-3.2-1b", "--gpus", "MI300X"}};
  for (const auto& words : questions) {
    const auto done = run(words);
    EXPECT_EQ(done.exit_code, 2) << words[0] << ' ' << words[1];
    EXPECT_THAT(done.standard_error, HasSubstr("gpuwarden judges NVIDIA GPUs only; MI300X is AMD's"));
  }
}

TEST_F(Compat, AToolkitsNeedsInManySpellings) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"cu128"}, {"cuda", "12.8"}, {"cuda==12.8"}, {"--cuda", "12.8"}, {"CUDA", "12.8.1"}}) {
    auto all = words;
    all.insert(all.end(), {"--driver", "535.104.05", "--gpu", "A100"});
    const auto cuda = answer(all);
    EXPECT_EQ(cuda["cuda"], "12.8") << words[0];
    EXPECT_EQ(cuda["min_driver_minor_version"], "525.60.13");
    EXPECT_TRUE(cuda["min_driver"].get<std::string>().starts_with("570."));
    EXPECT_EQ(cuda["here"]["runs"], "by minor-version compatibility");
    EXPECT_EQ(cuda["max_gcc"], "14.0");
  }
  EXPECT_EQ(run({"compat", "cu130", "--driver", "580.65.06", "--gpu", "V100"}).exit_code, 1) << "left by CUDA 13";
}

TEST_F(Compat, OptionsThatMayBeRepeatedLeaveTheQuestionAlone) {
  EXPECT_EQ(answer({"--driver", "535.104.05", "--gpu", "A100", "--gpu", "L4", "cu128"})["cuda"], "12.8");
}

TEST_F(Compat, WhatIsNewerThanTheKnowledgeIsSaidToBeSo) {
  const auto cuda = answer({"cuda", "13.9", "--driver", "580.65.06"});
  EXPECT_EQ(cuda["newer_than_known"], true);
  EXPECT_EQ(cuda["min_driver_minor_version"], "580") << "the rule of its major release";
  const auto driver = run({"compat", "driver", "999.1"});
  EXPECT_EQ(driver.exit_code, 0);
  EXPECT_THAT(driver.standard_output, HasSubstr("newer than this knowledge base"));
  EXPECT_EQ(answer({"torch==99.1+cu130"})["newer_than_known"], true);
  EXPECT_EQ(run({"compat", "torch==99.1+cu130"}).exit_code, 1) << "not known, like one that is too old to be";
  EXPECT_EQ(answer({"torch==99.1"})["companions"], nlohmann::json::array());
  const auto vllm = run({"compat", "vllm==99", "--gpu", "H100"});
  EXPECT_EQ(vllm.exit_code, 1);
  EXPECT_EQ(vllm.standard_output, "vLLM 99 is not in this knowledge base\n");
  EXPECT_EQ(run({"compat", "vllm==0.99", "--gpu", "H100"}).exit_code, 0) << "by the needs of the newest before it";
  EXPECT_EQ(run({"compat", "cuda", "12.7", "--driver", "570"}).exit_code, 0) << "no toolkit, but drivers offer it";
  EXPECT_EQ(run({"compat", "torch==0.1"}).exit_code, 1);
}

TEST_F(Compat, AWheelIsJudgedForGpuAndDriver) {
  const auto good = answer({"torch==2.5.1+cu124", "--driver", "535.104.05", "--gpu", "H100"});
  EXPECT_EQ(good["version"], "2.5.1");
  const auto& wheels = good["wheels"];
  const auto row = std::ranges::find_if(wheels, [](const auto& one) { return one["build"] == "cu124"; });
  ASSERT_NE(row, wheels.end());
  EXPECT_EQ((*row)["runs"], true);
  EXPECT_THAT((*row)["command"].get<std::string>(), HasSubstr("torch==2.5.1 "));
  const auto blackwell = run({"compat", "pytorch", "2.5.1", "--driver", "570.86.16", "--gpu", "RTX 5090"});
  EXPECT_EQ(blackwell.exit_code, 1);
  EXPECT_THAT(blackwell.standard_output, HasSubstr("has no code for the GPU"));
  EXPECT_THAT(blackwell.standard_output, HasSubstr("recommended"));
  EXPECT_EQ(run({"compat", "torch==2.5.1+cu999", "--driver", "570", "--gpu", "H100"}).exit_code, 1);
  EXPECT_EQ(
      answer({"torch", "--gpu", "H100", "--driver", "580"})["recommended"]["torch_command"].get<std::string>().substr(
          0, 18),
      "pip install torch=");
}

TEST_F(Compat, VllmIsJudgedByItsPins) {
  const auto fits = answer({"vllm==0.9", "--driver", "570.86.16", "--gpu", "RTX 5090"});
  EXPECT_EQ(fits["torch"], "2.7.0");
  EXPECT_EQ(fits["here"]["runs"], true);
  const auto old = answer({"vllm==0.9", "--driver", "570.86.16", "--gpu", "GTX 1080 Ti"});
  EXPECT_EQ(old["here"]["runs"], false);
  EXPECT_THAT(old["here"]["why"].get<std::string>(), HasSubstr("compute capability 6.1"));
  EXPECT_EQ(answer({"vllm==0.19.5"})["estimated"], true);
  EXPECT_EQ(run({"compat", "vllm==0.0.1"}).exit_code, 1);
}

TEST_F(Compat, ComponentsAreQuoted) {
  EXPECT_THAT(run({"compat", "tensorflow==2.15"}).standard_output, HasSubstr("CUDA 12.2, cuDNN 8.9"));
  EXPECT_GE(answer({"cudnn"})["releases"].size(), 4U);
  EXPECT_EQ(answer({"nccl"})["releases"][0].contains("needs"), true);
  const auto unknown = run({"compat", "cudnn==1.0"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.standard_output, HasSubstr("not in this knowledge base; these are"));
}

TEST_F(Compat, AGpuWithItsDriversToolkitsAndFrameworks) {
  const auto gpu = answer({"--gpu", "RTX 5090", "--on", "2026-11-21"});
  EXPECT_EQ(gpu["name"], "NVIDIA GeForce RTX 5090");
  EXPECT_EQ(gpu["compute_capability"], "12.0");
  EXPECT_EQ(gpu["first_cuda"], "12.8");
  EXPECT_EQ(gpu["min_driver"], "570.86.16");
  EXPECT_EQ(gpu["recommended_driver"], "580");
  EXPECT_EQ(gpu["open_kernel_module"], "required");
  EXPECT_EQ(gpu["mig_max_instances"], 0);
  EXPECT_THAT(gpu["first_torch"].get<std::string>(), HasSubstr("2.7"));
  EXPECT_EQ(answer({"Tesla", "V100-SXM2-32GB"})["last_driver_branch"], 580);
  EXPECT_EQ(answer({"A100-SXM4-80GB"})["mig_max_instances"], 7);
  expect_error({"compat", "Voodoo 2"}, 2, "nor a known GPU");
  EXPECT_THAT(run({"compat", "RTX 4O90"}).standard_error, HasSubstr("did you mean 'RTX 4090'?"));
}

TEST_F(Compat, AnArchitectureAndAnXid) {
  EXPECT_EQ(answer({"sm_89"})["first_cuda"], "11.8");
  EXPECT_THAT(run({"compat", "sm_100"}).standard_output, HasSubstr("sm_100a"));
  EXPECT_EQ(run({"compat", "sm_199"}).exit_code, 1);
  const auto xid = answer({"xid", "79"});
  EXPECT_EQ(xid["severity"], "critical");
  EXPECT_THAT(xid["action_plain"].get<std::string>(), HasSubstr("reboot"));
  EXPECT_EQ(run({"compat", "xid", "99999"}).exit_code, 1);
  expect_error({"compat", "xid", "many"}, 2, "not an Xid");
}

TEST_F(Compat, RanksGpusForAJobByARuleThatItStates) {
  const auto job = answer({"--for", "train llama-3-8b"});
  EXPECT_EQ(job["model"], "meta-llama/Meta-Llama-3-8B");
  EXPECT_THAT(job["rule"].get<std::string>(), HasSubstr("as gpuwarden plan counts it"));
  EXPECT_EQ(job["ranking"][0]["gpus"], 1);
  const auto few = answer({"serve", "llama-3-70b", "--gpu", "A100,L4"})["ranking"];
  for (const auto& row : few)
    EXPECT_TRUE(row["gpu"].get<std::string>().contains("A100") || row["gpu"] == "NVIDIA L4") << row["gpu"];
  EXPECT_GE(few.size(), 3U) << "all kinds of A100";
  EXPECT_EQ(answer({"--for", "train llama-3-8b", "--simulate", "h100x8"})["here"]["present"], 8);
  EXPECT_EQ(run({"compat", "--for", "train llama-3-405b", "--simulate", "t4x1"}).exit_code, 1);
}

TEST_F(Compat, SelectAndDoctorCountTheSameGpusForAJob) {
  const auto agree = [&](const std::string& task, const std::string& model) {
    const std::string purpose = task + " " + model;
    const auto selected = json({"select", "--model", model, "--task", task, "--simulate", "h100x8"});
    const auto here = answer({"--for", purpose, "--simulate", "h100x8"})["here"];
    const auto doctor =
        json({"doctor", "--for", purpose, "--only", "purpose-needs-more-memory", "--simulate", "h100x8"});
    const std::size_t gpus = selected["satisfied"] == true ? selected["selected"].size() : 0;
    EXPECT_EQ(here.is_null() ? 0U : here["needed"].get<std::size_t>(), gpus) << purpose;
    EXPECT_EQ(doctor["findings"].empty(), gpus > 0) << purpose;
  };
  agree("train", "llama-3-8b");
  agree("train", "mixtral-8x7b");
  agree("serve", "qwen3-235b-a22b");
  agree("serve", "llama-3.1-405b");
  agree("lora", "llama-3.1-70b");
}

TEST_F(Compat, TheMatrixHasEveryGpuOrThoseThatAreNamed) {
  EXPECT_GT(answer({"--matrix"})["matrix"].size(), 100U);
  const auto rows = answer({"--matrix", "--gpu", "H100 PCIe", "--gpu", "RTX 5090", "--driver", "535.104.05", "--for",
                            "torch==2.5.1+cu124", "--on", "2026-11"})["matrix"];
  ASSERT_EQ(rows.size(), 2U) << "not the 5090 D, which has the same words in its name";
  EXPECT_EQ(rows[0]["cuda"], "12.4");
  EXPECT_EQ(rows[0]["required"], "525.60.13");
  EXPECT_EQ(rows[0]["recommended"], "580");
  EXPECT_EQ(rows[0]["standing"], "below recommended");
  EXPECT_EQ(rows[1]["standing"], "below minimum");
  const std::string text = run({"compat", "--matrix"}).standard_output;
  EXPECT_THAT(text, HasSubstr("minimum: the first branch"));
}

TEST_F(Compat, SourcesAreShownOnRequestAndAlwaysInJson) {
  EXPECT_THAT(run({"compat", "cu128", "--driver", "570"}).standard_output, Not(HasSubstr("sources")));
  EXPECT_THAT(run({"compat", "cu128", "--driver", "570", "--why"}).standard_output, HasSubstr("sources"));
  EXPECT_FALSE(json({"compat", "xid", "79"})["sources"].empty());
}

TEST_F(Compat, WrongQuestionsAreRefused) {
  expect_error({"compat", "cu128", "--cuda", "12.4"}, 2, "ask one at a time");
  expect_error({"compat", "--cuda", "new"}, 2, "not a CUDA version");
  expect_error({"compat", "--driver", "new"}, 2, "not a driver version");
  expect_error({"compat", "--gpu", "Voodoo", "--driver", "550"}, 2, "no GPU 'Voodoo'");
  expect_error({"compat", "--on", "tomorrow", "cu128"}, 2, "is not a date");
  expect_error({"compat", "torch==new"}, 2, "not a version");
  expect_error({"compat", "train", "my-model"}, 2, "size of the model");
}

TEST_F(Compat, AFileLiesOverTheKnowledge) {
  const auto site = file("site.yaml",
                         "toolkits: [{version: 14.0.0, min_driver: 640.10, lowest: 80, highest: 130}]\n"
                         "drivers: [{branch: 640, max_cuda: 14.0}]\n");
  EXPECT_EQ(answer({"cuda", "14.0", "--driver", "640.20", "--knowledge", site})["here"]["runs"], "natively");
  EXPECT_EQ(json({"compat", "cuda", "14.0", "--driver", "640.20", "--knowledge", site})["knowledge"]["overlays"][0],
            site);
  const auto bad = file("bad.yaml", "toolkits:\n  - {version: 14.0.0, min_drivr: 1}\n");
  expect_error({"compat", "cu128", "--knowledge", bad}, 2, "bad.yaml:2:23: toolkits[0] has no key 'min_drivr'");
  expect_error({"compat", "cu128", "--knowledge", file("no.yaml", "") + ".gone"}, 2, "no.yaml.gone");
}

TEST_F(Compat, FilesOfTheConfigurationFolderAreReadInOrder) {
  testing::put(dir_ / "knowledge/10-first.yaml", "xids: [{code: 900, description: ours, severity: info}]\n");
  testing::put(dir_ / "knowledge/20-second.yaml", "xids: [{code: 900, severity: critical}]\n");
  testing::put(dir_ / "knowledge/README", "no YAML at all: {\n");
  const auto xid = answer({"xid", "900"});
  EXPECT_EQ(xid["description"], "ours");
  EXPECT_EQ(xid["severity"], "critical");
  environment_.erase("GPUWARDEN_KNOWLEDGE_PATH");
  environment_["XDG_CONFIG_HOME"] = (dir_ / "config").string();
  testing::put(dir_ / "config/gpuwarden/knowledge/site.yaml",
               "xids: [{code: 901, description: own, severity: info}]\n");
  EXPECT_EQ(answer({"xid", "901"})["known"], true);
  EXPECT_EQ(answer({"xid", "900"})["known"], false);
}

constexpr std::string_view kRules = R"(rules:
  - id: our-model
    severity: error
    gpu: H100
    workload: our-model
    driver: {required: 565.57.01}
    message: "driver {driver} on {gpu}: our model needs {wanted}"
    fix: apt install nvidia-driver-570
  - {id: waste, when: {gpus_unused: true}, fix: ask for fewer GPUs}
)";

TEST_F(Compat, TheDoctorKnowsTheRulesOfTheSite) {
  const auto rules = file("rules.yaml", kRules);
  const auto done =
      run({"doctor", "--simulate", "h100x8", "--knowledge", rules, "--for", "our-model", "--only", "site"});
  EXPECT_EQ(done.exit_code, 1) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("our model needs 565.57.01"));
  EXPECT_THAT(done.standard_output, HasSubstr("[site:our-model]"));
  EXPECT_THAT(done.standard_output, HasSubstr("$ apt install nvidia-driver-570"));
  EXPECT_EQ(run({"doctor", "--simulate", "h100x8", "--knowledge", rules, "--only", "site"}).exit_code, 0);
  EXPECT_THAT(run({"doctor", "--list", "--knowledge", rules}).standard_output, HasSubstr("site:waste"));
  const auto rows = answer({"--for", "our-model", "--gpu", "H100 PCIe", "--knowledge", rules})["matrix"];
  EXPECT_EQ(rows[0]["required"], "565.57.01");
  expect_error({"doctor", "--simulate", "h100x8", "--for", "our-model"}, 2, "our-model");
  expect_error({"doctor", "--simulate", "h100x8", "--knowledge", file("bad.yaml", "rules: 1\n")}, 2, "bad.yaml:1:");
}

TEST_F(Compat, TheReportOfARunKnowsThemToo) {
  const auto rules = file("rules.yaml", kRules);
  const auto report = file("report.json", "");
  const auto done = run({"run", "-n", "2", "--simulate", "h100x8", "--knowledge", rules, "--report", report,
                         "--sample-period", "50ms", "--sim-load", "memory=1GiB,util=0", "--", "sleep", "3"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_error, HasSubstr("2 GPUs were asked for, 0 used [site:waste]: ask for fewer GPUs"));
  const auto told = nlohmann::json::parse(read_file(report).value_or(""), nullptr, false);
  EXPECT_EQ(told["findings"][0]["id"], "site:waste");
}

}  // namespace
}  // namespace gpuwarden
