// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/compat/json.hpp"

#include <nlohmann/json.hpp>

#include "compat/tables.hpp"

namespace gpuwarden::compat {
namespace {

using ::testing::SizeIs;
using Json = nlohmann::json;

/// The document as a program reads it, and the value that it was made of.
struct Asking {
  explicit Asking(const std::string& words, const std::string& gpus = "", const std::string& driver = "") {
    if (!gpus.empty()) place.gpus = gpus_named({gpus}, tables()).value();
    if (!driver.empty()) place.driver = Version::parse(driver);
    if (!words.empty()) question = parse_question(tables(), words).value();
    value = answer({tables(), place, kToday}, question).value();
    json = Json::parse(to_json({tables(), place, kToday}, question, value).dump());
  }
  Place place{.gpus = {}, .driver = {}, .origin = "what was named"};
  Question question;
  Answer value;
  Json json;
};

TEST(CompatJson, EveryAnswerSaysWhatWasAskedWhereAndFromWhat) {
  const Asking asking("cu128", "H100", "550.54.15");
  EXPECT_EQ(asking.json["schema"], 1);
  EXPECT_EQ(asking.json["simulated"], false);
  EXPECT_EQ(asking.json["question"], "cu128");
  EXPECT_EQ(asking.json["kind"], "cuda");
  EXPECT_EQ(asking.json["place"]["origin"], "what was named");
  EXPECT_EQ(asking.json["place"]["driver"], "550.54.15");
  EXPECT_EQ(asking.json["place"]["gpus"][0]["compute_capability"], "9.0");
  EXPECT_EQ(asking.json["sources"], Json(verdict_of(asking.value).sources));
  EXPECT_EQ(asking.json["knowledge"]["newest_driver_branch"], tables().newest_branch());
  EXPECT_EQ(Asking("cu128").json["place"], nullptr);
}

TEST(CompatJson, AMachinesAnswerHasItsToolkitsAndWheels) {
  const Asking asking("", "RTX 5090", "570.86.16");
  const auto& value = std::get<MachineAnswer>(asking.value);
  const Json& json = asking.json["answer"];
  ASSERT_THAT(json["toolkits"], SizeIs(value.toolkits.size()));
  for (std::size_t i = 0; i < value.toolkits.size(); ++i) {
    EXPECT_EQ(json["toolkits"][i]["cuda"], to_string(value.toolkits[i].cuda));
    EXPECT_EQ(json["toolkits"][i]["builds_for_gpus"], value.toolkits[i].builds);
    EXPECT_EQ(json["toolkits"][i]["runs"], words_for(*value.toolkits[i].runs));
  }
  ASSERT_THAT(json["torch"], SizeIs(value.torch.size()));
  EXPECT_EQ(json["torch"][0]["why"], words_for(*value.torch[0].fit));
  EXPECT_EQ(json["recommended"]["driver"], nullptr) << "the present one will do";
  EXPECT_EQ(json["recommended"]["torch"], wheel_name(*value.recommended->torch));
}

TEST(CompatJson, WhatIsNotKnownOfAPlaceIsNull) {
  const Asking asking("torch==2.5.1");
  const Json& json = asking.json["answer"];
  EXPECT_EQ(json["version"], "2.5.1");
  EXPECT_EQ(json["wheels"][0]["runs"], nullptr);
  EXPECT_EQ(json["wheels"][0]["why"], nullptr);
  EXPECT_FALSE(json.contains("recommended"));
  EXPECT_EQ(Asking("vllm==0.9").json["answer"]["here"], nullptr);
  EXPECT_EQ(Asking("cu128").json["answer"]["here"], nullptr);
}

TEST(CompatJson, AGpusAnswerHasTheFiguresOfItsRow) {
  const Asking asking("RTX 5090");
  const auto& model = *std::get<GpuAnswer>(asking.value).model;
  const Json& json = asking.json["answer"];
  EXPECT_EQ(json["name"], model.name);
  EXPECT_EQ(json["memory_gb"], model.memory_gb);
  EXPECT_EQ(json["open_kernel_module"], "required");
  EXPECT_EQ(json["mig_max_instances"], 0);
  for (const Rate& rate : rates()) {
    ASSERT_TRUE(json.contains(rate.key));
    if (model.*rate.value > 0) {
      EXPECT_EQ(json[rate.key], model.*rate.value);
    }
  }
  for (const char* key :
       {"first_cuda", "last_cuda", "min_driver", "recommended_driver", "last_driver_branch", "good_for", "derived_from",
        "first_torch", "newest_torch", "torch_command", "newest_vllm", "also"})
    EXPECT_TRUE(json.contains(key)) << key;
}

TEST(CompatJson, WhereBuildsComeFromInsteadIsOneTextForEveryQuestion) {
  const Json builds = Asking("Orin").json["answer"]["other_builds"];
  ASSERT_TRUE(builds.is_string());
  for (const char* question : {"", "torch", "torch==2.5.1", "torch==2.9.1", "vllm", "vllm==0.29"}) {
    const Asking asking(question, "Jetson AGX Orin");
    EXPECT_EQ(asking.json["answer"]["recommended"]["other_builds"], builds) << question;
    EXPECT_EQ(asking.json["answer"]["recommended"]["torch"], nullptr) << question;
  }
  EXPECT_EQ(Asking("torch", "H100").json["answer"]["recommended"]["other_builds"], nullptr);
}

TEST(CompatJson, AWheelWithoutTheGpuHasACommandAndNoDriver) {
  const Json cpu = Asking("torch==2.5.1+cpu", "T4", "470.82.01").json["answer"];
  EXPECT_EQ(cpu["uses_gpu"], false);
  EXPECT_EQ(cpu["min_driver"], nullptr);
  EXPECT_THAT(cpu["wheels"], SizeIs(0));
  EXPECT_EQ(cpu["command"], "pip install torch==2.5.1 --index-url https://download.pytorch.org/whl/cpu");
  EXPECT_EQ(Asking("torch==2.5.1").json["answer"]["uses_gpu"], true);
  EXPECT_EQ(Asking("torch==2.9.0").json["answer"]["released"], nullptr) << "2.9.1 is of 2025-11";
}

TEST(CompatJson, APackageHasItsNeedsAndHowItDoesHere) {
  const Json turing = Asking("flash-attn", "T4").json["answer"];
  EXPECT_EQ(turing["needs"]["min_compute_capability"], "8.0");
  EXPECT_EQ(turing["needs"]["max_compute_capability"], nullptr);
  EXPECT_EQ(turing["here"]["runs"], false);
  EXPECT_EQ(Asking("flash-attn==3", "H100").json["answer"]["needs"]["max_compute_capability"], "9.0");
  EXPECT_EQ(Asking("jax", "A100", "580.65.06").json["answer"]["needs"]["min_driver"], "525.60.13");
  EXPECT_EQ(Asking("jax", "A100", "580.65.06").json["answer"]["here"]["runs"], true);
  EXPECT_EQ(Asking("cudnn", "T4").json["answer"]["here"]["runs"], nullptr);
  EXPECT_EQ(Asking("cudnn").json["answer"]["here"], nullptr);
}

TEST(CompatJson, TheMatrixHasNoDriverForADroppedGeneration) {
  const Place place{.gpus = gpus_named({"V100 32GB"}, tables()).value(), .driver = Version{580}, .origin = ""};
  const Json row = to_json(answer_matrix({tables(), place, kToday}, Version{13, 0}, ""))["matrix"][0];
  EXPECT_EQ(row["runs"], "not at all");
  for (const char* key : {"required", "recommended", "optimal", "standing"}) EXPECT_EQ(row[key], nullptr) << key;
  EXPECT_EQ(row["last_branch"], 580);
}

TEST(CompatJson, TheOthersHaveTheirKeys) {
  const Json xid = to_json(answer_xid(tables(), 79));
  EXPECT_EQ(xid["known"], true);
  EXPECT_EQ(xid["severity"], tables().xid(79)->severity);
  EXPECT_EQ(to_json(answer_xid(tables(), 99999)), (Json{{"xid", 99999}, {"known", false}}));
  const Asking job("train llama-3-8b");
  const auto& ranking = std::get<JobAnswer>(job.value).ranking;
  ASSERT_THAT(job.json["answer"]["ranking"], SizeIs(ranking.size()));
  EXPECT_EQ(job.json["answer"]["ranking"][0]["gpu"], ranking[0].model->name);
  EXPECT_EQ(job.json["answer"]["ranking"][0]["rate_unit"], "TFLOPS");
  EXPECT_EQ(Asking("sm_89").json["answer"]["first_cuda"], "11.8");
  EXPECT_EQ(Asking("cudnn").json["answer"]["component"], "cudnn");
  const Place place{.gpus = {}, .driver = Version{535}, .origin = ""};
  const MatrixAnswer matrix = answer_matrix({tables(), place, kToday}, std::nullopt, "");
  ASSERT_THAT(to_json(matrix)["matrix"], SizeIs(matrix.rows.size()));
  EXPECT_EQ(to_json(matrix)["matrix"][0]["standing"], to_string(*matrix.rows[0].standing));
}

}  // namespace
}  // namespace gpuwarden::compat
