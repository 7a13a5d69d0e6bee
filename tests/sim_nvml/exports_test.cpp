// SPDX-License-Identifier: Apache-2.0
// Clients infer struct layouts from which symbols exist: each profile has exactly those of its time.
#include <elf.h>

#include <cstring>
#include <set>

#include "gpuwarden/base/file.hpp"
#include "sim_nvml/client.hpp"

namespace gpuwarden::nvml {
namespace {

using ::testing::ElementsAre;

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

TEST_P(Profile, ExportsWhatItsDriverHadAndNothingElse) {
  std::set<std::string> expected{"gpuwarden_sim_call"};
  for (const Symbol& symbol : kSymbols) {
    if (symbol.since <= GetParam()) expected.insert(symbol.name);
  }
  EXPECT_EQ(SharedObject(library_of(GetParam())).exports(), expected);
}

TEST_P(Profile, HasTheNameThatClientsOpen) {
  EXPECT_THAT(SharedObject(library_of(GetParam())).tagged(DT_SONAME), ElementsAre("libnvidia-ml.so.1"));
}

INSTANTIATE_TEST_SUITE_P(Drivers, Profile, ::testing::ValuesIn(kProfiles));

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
