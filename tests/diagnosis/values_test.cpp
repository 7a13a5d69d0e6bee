// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/values.hpp"

#include <gtest/gtest.h>

namespace gpuwarden::diagnosis {
namespace {

TEST(LogValues, SizesArePowersOf1024WhateverTheirUnitsName) {
  EXPECT_EQ(size_in_log("2.00 GiB"), std::int64_t{2} << 30);
  EXPECT_EQ(size_in_log("30.5GiB"), std::int64_t{61} << 29);
  EXPECT_EQ(size_in_log("512 MB"), std::int64_t{512} << 20);
  EXPECT_EQ(size_in_log("96.50 KiB"), 98816);
  EXPECT_EQ(size_in_log("0 bytes"), 0);
  EXPECT_EQ(size_in_log("4,294,967,296 bytes"), 4294967296);
  EXPECT_EQ(size_in_log("1182720000"), 1182720000);
  EXPECT_EQ(size_in_log("********"), std::nullopt);
  EXPECT_EQ(size_in_log(""), std::nullopt);
  EXPECT_EQ(size_in_log("99999999999999999999 TiB"), std::nullopt);
}

TEST(LogValues, EachKeyHasItsKind) {
  Facts facts;
  add_fact(facts, "tried_bytes", "1.5 GiB");
  add_fact(facts, "gpu", "3");
  add_fact(facts, "timeout_ms", "60s");
  add_fact(facts, "xid", "79");
  add_fact(facts, "library", " libcudart.so.12 ");
  EXPECT_EQ(number(facts, "tried_bytes"), std::int64_t{3} << 29);
  EXPECT_EQ(number(facts, "gpu"), 3);
  EXPECT_EQ(number(facts, "timeout_ms"), 60000);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(facts["xid"]), std::vector<std::int64_t>{79});
  EXPECT_EQ(word(facts, "library"), "libcudart.so.12");
  EXPECT_EQ(word(facts, "gpu"), std::nullopt);
  EXPECT_EQ(number(facts, "library"), std::nullopt);
}

TEST(LogValues, TimesMayNameTheirUnit) {
  for (const auto& [text, milliseconds] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"600000", 600000}, {"600000ms", 600000}, {"10 minutes", 600000}, {"1.5 s", 1500}, {"2h", 7200000}}) {
    Facts facts;
    add_fact(facts, "timeout_ms", text);
    EXPECT_EQ(number(facts, "timeout_ms"), milliseconds) << text;
  }
}

TEST(LogValues, WhatDoesNotFitItsKeyIsLeftOut) {
  Facts facts;
  add_fact(facts, "gpu", "three");
  add_fact(facts, "tried_bytes", "much");
  add_fact(facts, "timeout_ms", "soon");
  add_fact(facts, "port", "99999999999999999999");
  add_fact(facts, "library", "  ");
  EXPECT_TRUE(facts.empty());
}

TEST(LogValues, FirstWordsCountAndListsGrow) {
  Facts facts;
  add_fact(facts, "gpu", "3");
  add_fact(facts, "gpu", "4");
  for (const char* code : {"79", "154", "79"}) add_fact(facts, "xid", code);
  add_process(facts, 1, 10);
  add_process(facts, 1, 20);
  add_process(facts, 2, 20);
  EXPECT_EQ(number(facts, "gpu"), 3);
  EXPECT_EQ(shown("xid", facts["xid"]), "79, 154");
  EXPECT_EQ(std::get<std::vector<ProcessMemory>>(facts["processes"]).size(), 2);
  Facts more{{"gpu", std::int64_t{5}}, {"rank", std::int64_t{1}}, {"xid", std::vector<std::int64_t>{13}}};
  merge_facts(facts, more);
  EXPECT_EQ(number(facts, "gpu"), 3);
  EXPECT_EQ(number(facts, "rank"), 1);
  EXPECT_EQ(shown("xid", facts["xid"]), "79, 154, 13");
}

TEST(LogValues, AreShownInTheirUnits) {
  EXPECT_EQ(shown("free_bytes", std::int64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(shown("timeout_ms", std::int64_t{600000}), "10 min 0 s");
  EXPECT_EQ(shown("anon_rss_kb", std::int64_t{1} << 20), "1 GiB");
  EXPECT_EQ(shown("port", std::int64_t{29500}), "29500");
  EXPECT_EQ(shown("processes", std::vector<ProcessMemory>{{7, std::int64_t{1} << 30}}), "7 (1 GiB)");
}

}  // namespace
}  // namespace gpuwarden::diagnosis
