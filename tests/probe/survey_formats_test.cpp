// SPDX-License-Identifier: Apache-2.0
// The formats that the survey reads, sound and damaged.
#include "probe/survey/formats.hpp"

#include "probe/loader_cache.hpp"

namespace gpuwarden::probe {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::loader_cache;
using ::testing::SizeIs;
using Texts = std::vector<std::string>;

TEST(LoaderCache, GivesItsPathsInTheLoadersOrder) {
  const std::string cache = loader_cache({"/usr/lib/libcuda.so.1", "/opt/libnccl.so.2"});
  EXPECT_THAT(paths_in_loader_cache(cache), ElementsAre("/usr/lib/libcuda.so.1", "/opt/libnccl.so.2"));
  EXPECT_THAT(paths_in_loader_cache("ld.so-1.7.0 and an old table" + cache), SizeIs(2));
}

TEST(LoaderCache, EveryTruncationIsHarmless) {
  const std::string cache = loader_cache({"/usr/lib/libcuda.so.1", "/opt/libnccl.so.2"});
  for (std::size_t size = 0; size < cache.size(); ++size) {
    for (const std::string& path : paths_in_loader_cache(cache.substr(0, size)))
      EXPECT_TRUE(path == "/usr/lib/libcuda.so.1" || path == "/opt/libnccl.so.2") << size << " " << path;
  }
}

TEST(LoaderCache, WrongNumbersInsideLeadNowhere) {
  std::string cache = loader_cache({"/usr/lib/libcuda.so.1"});
  std::string huge_count = cache;
  huge_count.replace(20, 4, "\xff\xff\xff\xff");
  EXPECT_LE(paths_in_loader_cache(huge_count).size(), 2U);
  std::string far_offset = cache;
  far_offset.replace(48 + 8, 4, "\xff\xff\xff\x7f");
  EXPECT_THAT(paths_in_loader_cache(far_offset), IsEmpty());
}

TEST(LibraryName, TellsAVersionOnlyWithADotInIt) {
  EXPECT_EQ(version_of_library("libcuda.so.550.54.15"), "550.54.15");
  EXPECT_EQ(version_of_library("libcudnn.so.9"), std::nullopt);
  EXPECT_EQ(version_of_library("libnccl.so"), std::nullopt);
  EXPECT_EQ(version_of_library("libnvinfer.so.8.6.1-trial"), std::nullopt);
}

TEST(Modinfo, FindsAFieldBehindAZeroAndNotInsideAnother) {
  const std::string module = "ELF says version=1.2.3 \0srcversion=ABC\0version=550.54.15\0license=Dual MIT/GPL\0"s;
  EXPECT_EQ(modinfo_field(module, "version"), "550.54.15");
  EXPECT_EQ(modinfo_field(module, "license"), "Dual MIT/GPL");
  EXPECT_EQ(modinfo_field(module, "signer"), std::nullopt);
  EXPECT_EQ(modinfo_field("\0version=550.54"s, "version"), std::nullopt);  // cut
}

TEST(Modinfo, AValueIsMadePrintableAndNeverEndless) {
  EXPECT_EQ(modinfo_field("\0version=\x1b[31m1.2\0"s, "version"), "?[31m1.2");
  EXPECT_EQ(modinfo_field("\0version="s + std::string(5000, 'x') + "\0"s, "version"), std::nullopt);
}

TEST(ToolkitVersion, IsTheCompilersInVersionJson) {
  EXPECT_EQ(version_in_toolkit_json(R"({"cuda":{"version":"12.4.20240301"},"cuda_nvcc":{"version":"12.4.99"}})"),
            "12.4.99");
  EXPECT_EQ(version_in_toolkit_json(R"({"cuda":{"name":"CUDA SDK","version":"11.8.0"}})"), "11.8.0");
  for (const char* poor :
       {"", "[]", "{", R"({"cuda":"12"})", R"({"cuda":{"version":12}})", R"({"cuda":{"version":"x"}})"})
    EXPECT_EQ(version_in_toolkit_json(poor), std::nullopt) << poor;
}

TEST(ToolkitVersion, IsReadFromNvccAndHeaders) {
  EXPECT_EQ(version_in_nvcc_output("Cuda compilation tools, release 13.0, V13.0.88\nBuild"), "13.0.88");
  EXPECT_EQ(version_in_nvcc_output("nvcc: not found"), std::nullopt);
  EXPECT_EQ(version_in_cuda_header("/* CUDA_VERSION */\n#define CUDA_VERSION 12040\n"), "12.4");
  EXPECT_EQ(version_in_cuda_header("#define CUDA_VERSION 11080 /* 11.8 */"), "11.8");
  for (const char* poor :
       {"", "#define CUDA_VERSION", "#define CUDA_VERSION x", "#define CUDA_VERSION 9999999", "#if CUDA_VERSION 12040"})
    EXPECT_EQ(version_in_cuda_header(poor), std::nullopt) << poor;
}

TEST(HeaderVersion, PutsThreeMacrosTogether) {
  EXPECT_EQ(version_in_header("#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n", "CUDNN"),
            "9.1.0");
  EXPECT_EQ(version_in_header("#define NCCL_MAJOR 2\n#define NCCL_MINOR 21\n#define NCCL_PATCH 5\n", "NCCL"), "2.21.5");
  EXPECT_EQ(version_in_header("#define NCCL_MAJOR 2\n#define NCCL_MINOR 21\n", "NCCL"), "2.21");
  EXPECT_EQ(version_in_header("#define NCCL_MAJOR 2\n", "NCCL"), std::nullopt);
  EXPECT_EQ(version_in_nccl_library("%s NCCL version %d.%d\nNCCL version 2.21.5+cuda12.4"), "2.21.5");
  EXPECT_EQ(version_in_nccl_library("NCCL version %d"), std::nullopt);
  EXPECT_EQ(version_in_nccl_library("NCCL version 2.2"), std::nullopt);  // cut
}

TEST(PythonAssignment, ReadsWhatVersionFilesHold) {
  constexpr std::string_view kText =
      "from typing import Optional\n__version__ = '2.5.1+cu124'\ndebug = False\n"
      "cuda: Optional[str] = '12.4'  # of the build\nhip: Optional[str] = None\nrocm_x = compute()\n";
  EXPECT_EQ(python_assignment(kText, "__version__"), "2.5.1+cu124");
  EXPECT_EQ(python_assignment(kText, "cuda"), "12.4");
  EXPECT_EQ(python_assignment(kText, "hip"), "");
  EXPECT_EQ(python_assignment(kText, "debug"), "False");
  EXPECT_EQ(python_assignment(kText, "rocm_x"), std::nullopt);
  EXPECT_EQ(python_assignment(kText, "rocm"), std::nullopt);
  EXPECT_EQ(python_assignment("cuda = '", "cuda"), std::nullopt);
}

TEST(TorchArchitectures, AreTheLongestTextOfNothingElse) {
  const std::string library = "\0sm_\0sm_%d is not compatible\0sm_90\0sm_50 sm_80 sm_90a compute_90\0more"s;
  EXPECT_THAT(torch_architectures_in(library, false), ElementsAre("sm_50", "sm_80", "sm_90a", "compute_90"));
  EXPECT_THAT(torch_architectures_in("\0gfx90a gfx942 gfx1100\0"s, true), ElementsAre("gfx90a", "gfx942", "gfx1100"));
  EXPECT_THAT(torch_architectures_in("\0sm_50 sm_80 without an end"s, false), IsEmpty());
  EXPECT_THAT(torch_architectures_in("\0sm_8\0sm_90ab\0sm_90 %s\0compute_\0"s, false), IsEmpty());
}

TEST(PackageNames, AreReadFromWhatPipAndCondaWrote) {
  EXPECT_EQ(of_dist_info("torch-2.5.1+cu124.dist-info"), (NamedVersion{"torch", "2.5.1+cu124"}));
  EXPECT_EQ(of_dist_info("apex-0.1-py3.10-linux-x86_64.egg-info"), (NamedVersion{"apex", "0.1"}));
  for (const char* poor : {"torch", "torch.dist-info", "-1.dist-info", "torch-.dist-info", ".dist-info"})
    EXPECT_EQ(of_dist_info(poor), std::nullopt) << poor;
  EXPECT_EQ(of_conda_meta("cuda-nvcc-12.4.131-0.json"), (NamedVersion{"cuda-nvcc", "12.4.131"}));
  for (const char* poor : {"history", ".json", "-.json", "a-b.json", "--.json", "x--y.json"})
    EXPECT_EQ(of_conda_meta(poor), std::nullopt) << poor;
}

TEST(CondaBuild, TellsTheCudaOfPytorch) {
  EXPECT_EQ(cuda_of_conda_build("pytorch-2.4.0-py3.11_cuda12.4_cudnn9.1.0_0.json"), "12.4");
  EXPECT_EQ(cuda_of_conda_build("pytorch-2.6.0-cuda126_mkl_py311h1.json"), "12.6");
  EXPECT_EQ(cuda_of_conda_build("pytorch-2.6.0-cpu_mkl_py311h1.json"), "");
  EXPECT_EQ(cuda_of_conda_build("pytorch-2.6.0-py311_0.json"), std::nullopt);
  EXPECT_EQ(cuda_of_conda_build("cuda"), std::nullopt);
}

TEST(DpkgStatus, CountsOnlyWhatIsInstalled) {
  constexpr std::string_view kText =
      "Package: libnccl2\nStatus: install ok installed\nVersion: 2.21.5-1+cuda12.4\n\n"
      "Package: nvidia-driver\nStatus: deinstall ok config-files\nVersion: 525.1\n\n"
      "Package: docker-ce\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5:26.1.0-1~debian\n";
  EXPECT_THAT(packages_in_dpkg_status(kText), ElementsAre(NamedVersion{"libnccl2", "2.21.5-1+cuda12.4"},
                                                          NamedVersion{"docker-ce", "5:26.1.0-1~debian"}));
  EXPECT_THAT(packages_in_dpkg_status("Version: 1\nStatus: install ok installed\nVersion: 2\n"), IsEmpty());
}

TEST(SlurmHostList, KnowsRangesWithTheirLeadingZeros) {
  constexpr std::string_view kList = "login1,gpu[01-04,07],rack[1-2]node[10-12]";
  for (const char* in : {"login1", "gpu01", "gpu04", "gpu07", "rack2node11"})
    EXPECT_TRUE(host_list_has(kList, in)) << in;
  for (const char* out : {"", "gpu1", "gpu05", "gpu", "gpu010", "login", "rack3node10", "rack1node", "rack1node9"})
    EXPECT_FALSE(host_list_has(kList, out)) << out;
  EXPECT_FALSE(host_list_has("gpu[1-", "gpu1"));
  EXPECT_FALSE(host_list_has("gpu[]", "gpu1"));
  EXPECT_FALSE(host_list_has("]gpu1[,", "gpu1"));
}

TEST(SlurmResources, AreThoseOfThisNodesLine) {
  constexpr std::string_view kMain =
      "# nodes\nNodeName=cpu[1-9] CPUs=64\n"
      "nodename=gpu[01-02] Gres=gpu:a100:4(S:0-1),shard:8 \\\n  RealMemory=512000\nNodeName=gpu03 Gres=gpu:h100:8\n";
  EXPECT_THAT(gres_in_slurm_conf(kMain, "gpu02"), ElementsAre("gpu:a100:4", "shard:8"));
  EXPECT_THAT(gres_in_slurm_conf(kMain, "gpu03"), ElementsAre("gpu:h100:8"));
  EXPECT_THAT(gres_in_slurm_conf(kMain, "cpu3"), IsEmpty());
}

TEST(SlurmResources, OfGresConfAreCountedByTheirFiles) {
  EXPECT_THAT(gres_in_gres_conf("Name=gpu Type=a100 File=/dev/nvidia[0-3]\nName=gpu Type=a100 File=/dev/nvidia[4,6-7]\n"
                                "NodeName=other Name=gpu File=/dev/nvidia0\nName=shard Count=8\nAutoDetect=nvml\n",
                                "gpu01"),
              ElementsAre("gpu:a100:7", "shard:8"));
  EXPECT_THAT(gres_in_gres_conf("Name=gpu File=/dev/nvidia[0-999999999999]\nName=gpu Count=-5\n", "gpu01"),
              ElementsAre("gpu:2"));
}

TEST(SlurmValue, IgnoresCaseAndComments) {
  EXPECT_EQ(slurm_value("# ConstrainDevices=no\nconstraindevices = yes # really\n", "ConstrainDevices"), "yes");
  EXPECT_EQ(slurm_value("ConstrainDevicesX=no", "ConstrainDevices"), "");
}

}  // namespace
}  // namespace gpuwarden::probe
