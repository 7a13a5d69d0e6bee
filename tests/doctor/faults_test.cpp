// SPDX-License-Identifier: Apache-2.0
// Each check of the kernel log's faults: what makes it speak alone, and what only nearly does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;

constexpr std::string_view kReboot = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)";
constexpr std::string_view kReset = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)";
constexpr std::string_view kNone = "GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)";

void add_fault(Snapshot& machine, std::string_view kind, std::uint32_t code, std::string_view text,
               std::string_view place = "0000:27:00") {
  machine.kernel_faults->push_back({std::string(kind), code, std::string(place), std::nullopt, std::string(text), 1});
}

constexpr auto kFaultCases = std::to_array<Case>({
    {"xid-critical", [](Snapshot& m) { add_fault(m, "xid", 79, "GPU has fallen off the bus."); },
     [](Snapshot& m) { add_fault(m, "xid", 43, "Reset Channel Verif Error"); }, "Xid 79 on 0000:27:00"},
    {"xid-error", [](Snapshot& m) { add_fault(m, "xid", 46, "GPU stopped processing"); },
     [](Snapshot& m) { add_fault(m, "xid", 154, kNone); }, "Xid 46"},
    {"xid-application", [](Snapshot& m) { add_fault(m, "xid", 31, "MMU Fault"); },
     [](Snapshot& m) { add_fault(m, "xid", 45, "Preemptive Channel Removal"); }, "Xid 31"},
    {"xid-nvlink", [](Snapshot& m) { add_fault(m, "xid", 145, "RLW_REMAP Nonfatal XC0 i0 Link 04"); },
     [](Snapshot& m) { add_fault(m, "xid", 43, "Reset Channel Verif Error"); },
     "Xid 145 on 0000:27:00: NVLINK: RLW Error, not fatal"},
    {"xid-hardware", [](Snapshot& m) { add_fault(m, "xid", 168, "Errors found in WPR"); },
     [](Snapshot& m) { add_fault(m, "xid", 43, "Reset Channel Verif Error"); }, "Xid 168"},
    {"sxid", [](Snapshot& m) { add_fault(m, "sxid", 20034, "Fatal, Link 33 LTSSM Fault Up"); },
     [](Snapshot& m) { m.kernel_faults.reset(); }, "SXid 20034"},
    {"xid-recovery", [](Snapshot& m) { add_fault(m, "xid", 154, kReboot); },
     [](Snapshot& m) {
       add_fault(m, "xid", 154, kReboot);
       add_fault(m, "xid", 154, kNone);
     },
     "on 0000:27:00 asks for a reboot"},
    {"xid-unknown", [](Snapshot& m) { add_fault(m, "xid", 9999, "Something new"); },
     [](Snapshot& m) { add_fault(m, "xid", 43, "Reset Channel Verif Error"); }, "Xid 9999 on 0000:27:00"},
});

}  // namespace

std::span<const Case> fault_cases() { return kFaultCases; }

namespace {

using ::testing::HasSubstr;

TEST(FaultChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(fault_cases()); }

TEST(FaultChecks, AnXidNamesEveryGpuThatHadItAndHowOften) {
  Snapshot machine = healthy_machine();
  add_fault(machine, "xid", 31, "MMU Fault", "0000:27:00");
  add_fault(machine, "xid", 31, "MMU Fault", "0000:37:00");
  add_fault(machine, "xid", 31, "MMU Fault", "0000:27:00");
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_THAT(found.findings[0].title, HasSubstr("Xid 31 on 0000:27:00, 0000:37:00 (3 times)"));
}

TEST(FaultChecks, AnNvlinkMessageThatSaysFatalAsksForAReset) {
  Snapshot machine = healthy_machine();
  add_fault(machine, "xid", 149, "NETIR_LINK_EVT Fatal XC0 i0 Link 07 (0x004e9205 ...)", "0008:01:00");
  add_fault(machine, "xid", 145, "RLW_REMAP Non-fatal XC0 i0 Link 04", "0018:01:00");
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 2U);
  EXPECT_EQ(found.findings[0].severity, doctor::Severity::error);
  EXPECT_THAT(found.findings[0].title, HasSubstr("Xid 149 on 0008:01:00: NVLINK: NETIR Error, fatal"));
  EXPECT_THAT(found.findings[0].fix[0], HasSubstr("--gpu-reset"));
  EXPECT_EQ(found.findings[1].severity, doctor::Severity::warning);
  EXPECT_THAT(found.findings[1].fix[0], HasSubstr("unless Xid 154"));
}

TEST(FaultChecks, DetailsOfAMemoryFaultAndAFatalBusTimeOutAreErrorsWithAnAction) {
  for (const std::uint32_t code : {167U, 171U, 172U, 173U}) {
    Snapshot machine = healthy_machine();
    add_fault(machine, "xid", code, "x");
    const auto found = examined(machine);
    ASSERT_EQ(found.findings.size(), 1U) << code;
    EXPECT_EQ(found.findings[0].id, "xid-error") << code;
    EXPECT_EQ(found.findings[0].fix.size(), 2U) << code << ": an action, and where to read on";
  }
}

TEST(FaultChecks, ARemappedRowIsNoProgramsBug) {
  Snapshot machine = healthy_machine();
  add_fault(machine, "xid", 63, "Row Remapper: New row marked for remapping");
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_THAT(found.findings[0].why, HasSubstr("no program was stopped"));
  EXPECT_THAT(found.findings[0].fix[0], HasSubstr("go on: the row is replaced when the GPU is reset"));
  add_fault(machine, "xid", 13, "Graphics Exception");
  EXPECT_THAT(examined(machine).findings[0].why + examined(machine).findings[1].why, HasSubstr("its own bug"));
}

TEST(FaultChecks, BadMemoryOfOlderGpusIsRetiredInPages) {
  for (const std::uint32_t code : {48U, 63U, 64U}) {
    Snapshot machine = healthy_machine();
    remove_cuda_software(machine);
    use_v100(machine);
    add_fault(machine, "xid", code, "x");
    EXPECT_THAT(fixes_of(machine) + titles_of(machine), HasSubstr("page")) << code;
    EXPECT_THAT(fixes_of(machine) + titles_of(machine), ::testing::Not(::testing::ContainsRegex("[Rr]emap|the row")));
  }
  Snapshot told;  // of which GPU a line of the kernel's log speaks, its own words tell
  told.kernel_faults.emplace();
  add_fault(told, "xid", 63, "Dynamic Page Retirement: New retired page, reload the driver to activate. (0x1)");
  EXPECT_THAT(fixes_of(told), HasSubstr("the page is set aside when the driver is loaded anew"));
}

TEST(FaultChecks, ARecoveryActionIsTheConsequenceOfAnotherXidOfThatGpu) {
  Snapshot machine = healthy_machine();
  add_fault(machine, "xid", 46, "GPU stopped processing");
  add_fault(machine, "xid", 154, kReset);
  EXPECT_EQ(found_in(machine), "xid-error");
  add_fault(machine, "xid", 154, kReset, "0000:37:00");
  EXPECT_EQ(found_in(machine), "xid-error xid-recovery");
}

TEST(FaultChecks, ARecoveryActionIsCarriedOutOnItsGpu) {
  Snapshot machine = healthy_machine();
  add_fault(machine, "xid", 154, kReset, "0000:37:00");
  EXPECT_THAT(fixes_of(machine), HasSubstr("--gpu-reset -i 2"));
  machine.kernel_faults->clear();
  add_fault(machine, "xid", 154, kReset, "0001:37:00");
  EXPECT_THAT(fixes_of(machine), ::testing::Not(HasSubstr("-i 2"))) << "that is another PCI domain";
  machine.kernel_faults->clear();
  add_fault(machine, "xid", 154, "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)");
  EXPECT_EQ(examined(machine).worst, doctor::Severity::error);
  machine.kernel_faults->clear();
  add_fault(machine, "xid", 154, "GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)");
  EXPECT_EQ(examined(machine).worst, doctor::Severity::warning);
}

}  // namespace
}  // namespace gpuwarden::testing
