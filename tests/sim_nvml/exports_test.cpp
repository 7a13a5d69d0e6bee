// SPDX-License-Identifier: Apache-2.0
// Clients infer struct layouts from which symbols exist: each profile has exactly those of its time.
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "sim_nvml/client.hpp"

namespace gpuwarden::nvml {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The dynamic section's tables of an ELF file, read from its bytes.
class SharedObject {
 public:
  explicit SharedObject(const std::filesystem::path& path) : bytes_(read_file(path, std::size_t{1} << 30U).value()) {
    const auto header = at<Elf64_Ehdr>(0);
    for (unsigned i = 0; i < header.e_shnum; ++i)
      sections_.push_back(at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
  }

  std::set<std::string> exports() const {
    std::set<std::string> names;
    each<Elf64_Sym>(SHT_DYNSYM, [&](const Elf64_Sym& symbol, const char* strings) {
      if (symbol.st_shndx != SHN_UNDEF) names.insert(strings + symbol.st_name);
    });
    return names;
  }
  std::vector<std::string> tagged(Elf64_Sxword tag) const {
    std::vector<std::string> names;
    each<Elf64_Dyn>(SHT_DYNAMIC, [&](const Elf64_Dyn& entry, const char* strings) {
      if (entry.d_tag == tag) names.emplace_back(strings + entry.d_un.d_val);
    });
    return names;
  }

 private:
  template <class T>
  T at(std::size_t offset) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  template <class T, class Visit>
  void each(unsigned type, Visit visit) const {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != type) continue;
      const char* strings = bytes_.data() + sections_[section.sh_link].sh_offset;
      for (std::size_t i = 0; i < section.sh_size / sizeof(T); ++i)
        visit(at<T>(section.sh_offset + i * sizeof(T)), strings);
    }
  }

  std::string bytes_;
  std::vector<Elf64_Shdr> sections_;
};

class Profile : public ::testing::TestWithParam<int> {};

/// The names in a list of what a driver's library has; the lists say where they are from.
std::set<std::string> true_names(int profile) {
  const auto text = read_file(std::filesystem::path(GPUWARDEN_SIM_EXPORTS) / fmt::format("{}.txt", profile));
  std::set<std::string> names;
  for (const auto line : split(text.value(), '\n')) {
    if (!line.empty() && line[0] != '#') names.emplace(line);
  }
  return names;
}

std::set<std::string> own_names(int profile) {
  std::set<std::string> names = SharedObject(library_of(profile)).exports();
  EXPECT_EQ(names.erase("gpuwarden_sim_call"), 1U);
  return names;
}

/// In `names` but not in `others`.
std::vector<std::string> beyond(const std::set<std::string>& names, const std::set<std::string>& others) {
  std::vector<std::string> result;
  std::ranges::set_difference(names, others, std::back_inserter(result));
  return result;
}

TEST_P(Profile, ExportsWhatTheTableSays) {
  std::set<std::string> expected;
  for (const Symbol& symbol : kSymbols) {
    if (symbol.since <= GetParam() && GetParam() <= symbol.until) expected.insert(symbol.name);
  }
  EXPECT_EQ(own_names(GetParam()), expected);
}

TEST_P(Profile, LacksNothingOfItsTime) {
  // Two that no header declares: NVIDIA's own tools use the one, only driver 470 has the other.
  const std::set<std::string> undocumented{"nvmlInternalGetExportTable", "nvmlRetry_NvRmControl"};
  std::set<std::string> missing;
  for (const std::string& name : beyond(true_names(GetParam()), own_names(GetParam()))) missing.insert(name);
  EXPECT_THAT(beyond(missing, undocumented), IsEmpty());
}

TEST_P(Profile, HasNothingOfALaterTime) {
  // What the lists of 418 and 450 leave out: older versions of functions, and what 450.80 brought. The rest is
  // complete.
  static const std::set<std::string> kOlderVersions{"nvmlInit",
                                                    "nvmlInit_v2",
                                                    "nvmlDeviceGetCount",
                                                    "nvmlDeviceGetHandleByIndex",
                                                    "nvmlDeviceGetHandleByPciBusId",
                                                    "nvmlDeviceGetPciInfo",
                                                    "nvmlDeviceGetPciInfo_v2",
                                                    "nvmlDeviceGetNvLinkRemotePciInfo",
                                                    "nvmlDeviceRemoveGpu",
                                                    "nvmlDeviceGetGridLicensableFeatures",
                                                    "nvmlGetBlacklistDeviceCount",
                                                    "nvmlGetBlacklistDeviceInfoByIndex"};
  static const std::set<std::string> kOf450Update{"nvmlErrorString",
                                                  "nvmlComputeInstanceGetInfo_v2",
                                                  "nvmlDeviceGetAttributes_v2",
                                                  "nvmlDeviceGetComputeRunningProcesses_v2",
                                                  "nvmlDeviceGetGraphicsRunningProcesses_v2",
                                                  "nvmlDeviceGetRowRemapperHistogram",
                                                  "nvmlVgpuTypeGetGpuInstanceProfileId"};
  std::set<std::string> known = true_names(GetParam());
  if (GetParam() == 418) known.insert(kOlderVersions.begin(), kOlderVersions.end());
  if (GetParam() == 450) known.insert(kOf450Update.begin(), kOf450Update.end());
  EXPECT_THAT(beyond(own_names(GetParam()), known), IsEmpty());
}

TEST_P(Profile, HasTheNameThatClientsOpen) {
  EXPECT_THAT(SharedObject(library_of(GetParam())).tagged(DT_SONAME), ElementsAre("libnvidia-ml.so.1"));
}

INSTANTIATE_TEST_SUITE_P(Drivers, Profile, ::testing::ValuesIn(kProfiles));

class Unmodelled : public Simulated {
 protected:
  using Kind = Symbol::Kind;
  static std::vector<Symbol> rows() {
    std::vector<Symbol> chosen;
    std::ranges::copy_if(kSymbols, std::back_inserter(chosen), [](const Symbol& row) {
      return row.until == 999 && row.kind != Kind::called && row.kind != Kind::simulated;
    });
    return chosen;
  }
};

TEST_F(Unmodelled, FunctionsAnswerUninitializedBeforeNvmlInit) {
  const Nvml& nvml = open(580, "h100x8");
  ASSERT_GT(rows().size(), 150U);
  for (const Symbol& row : rows()) EXPECT_EQ(nvml.call_blindly(row.name, nullptr), kUninitialized) << row.name;
}

TEST_F(Unmodelled, FunctionsAnswerNotSupported) {
  const Nvml& nvml = start("h100x8");
  const Device gpu = nvml.gpu(0);
  for (const Symbol& row : rows()) EXPECT_EQ(nvml.call_blindly(row.name, gpu), kNotSupported) << row.name;
}

TEST_F(Unmodelled, FunctionsRefuseNullWhereNullIsNoAnswer) {
  const Nvml& nvml = start("h100x8");
  for (const Symbol& row : rows()) {
    const Return expected = row.kind == Kind::number ? kNotSupported : kInvalidArgument;
    EXPECT_EQ(nvml.call_blindly(row.name, nullptr), expected) << row.name;
  }
}

TEST_F(Unmodelled, FunctionsOfAGpuTellItsTrouble) {
  const Nvml& nvml = start("h100x8");
  const Device gpu = nvml.gpu(0);
  nvml.call({{"op", "fault"}, {"gpu", 0}, {"fault", "lost"}});
  EXPECT_EQ(nvml.call_blindly("nvmlDeviceGetDriverModel", gpu), kGpuIsLost);
}

TEST(Exports, EveryLayoutOfAProcessListComesWithWhatTellsItApart) {
  // nvitop takes _v3 lists for 32-byte entries where GetConfComputeMemSizeInfo is there without
  // GetRunningProcessDetailList; ours hold 24 bytes.
  for (const int profile : kProfiles) {
    const Nvml library(profile);
    EXPECT_EQ(library.nvmlDeviceGetConfComputeMemSizeInfo == nullptr,
              library.nvmlDeviceGetRunningProcessDetailList == nullptr)
        << profile;
    EXPECT_EQ(library.nvmlDeviceGetComputeRunningProcesses_v3 == nullptr,
              library.nvmlDeviceGetGraphicsRunningProcesses_v3 == nullptr)
        << profile;
    EXPECT_NE(library.nvmlDeviceGetComputeRunningProcesses, nullptr) << profile;
  }
}

}  // namespace
}  // namespace gpuwarden::nvml
