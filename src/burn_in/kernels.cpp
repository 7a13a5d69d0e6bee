// SPDX-License-Identifier: Apache-2.0
// PTX, after the PTX ISA reference. The lowest versions that have the instructions are named, so that old drivers
// take them too.
#include "burn_in/kernels.hpp"

#include <fmt/format.h>

namespace gpuwarden::burn_in {

namespace {

/// %rd1 = this thread's first word, %rd2 = the end, %rd3 = the step to its next one; %rd4 = keep, %rd5 = flip,
/// %p1 = whether addresses are scrambled.
constexpr std::string_view kWalk = R"(
  .reg .pred %p<4>;
  .reg .u32 %r<8>;
  .reg .u64 %rd<24>;
  ld.param.u64 %rd1, [address];
  ld.param.u64 %rd2, [words];
  ld.param.u64 %rd4, [keep];
  ld.param.u64 %rd5, [flip];
  ld.param.u32 %r1, [scramble];
  setp.ne.u32 %p1, %r1, 0;
  cvta.to.global.u64 %rd1, %rd1;
  shl.b64 %rd2, %rd2, 3;
  add.u64 %rd2, %rd1, %rd2;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mov.u32 %r5, %nctaid.x;
  mad.wide.u32 %rd6, %r2, %r3, 0;
  cvt.u64.u32 %rd7, %r4;
  add.u64 %rd6, %rd6, %rd7;
  shl.b64 %rd6, %rd6, 3;
  add.u64 %rd1, %rd1, %rd6;
  mul.wide.u32 %rd3, %r3, %r5;
  shl.b64 %rd3, %rd3, 3;
)";

/// %rd10 = what belongs at %rd1. scrambled() in kernels.hpp is the same.
constexpr std::string_view kWord = R"(
  mul.lo.u64 %rd10, %rd1, 0x9E3779B97F4A7C15;
  shr.u64 %rd11, %rd10, 29;
  xor.b64 %rd10, %rd10, %rd11;
  mul.lo.u64 %rd10, %rd10, 0xBF58476D1CE4E5B9;
  shr.u64 %rd11, %rd10, 32;
  xor.b64 %rd10, %rd10, %rd11;
  selp.b64 %rd10, %rd10, %rd1, %p1;
  and.b64 %rd10, %rd10, %rd4;
  xor.b64 %rd10, %rd10, %rd5;
)";

constexpr std::string_view kPatternParameters =
    ".param .u64 address, .param .u64 words, .param .u64 keep, .param .u64 flip, .param .u32 scramble";

/// The frame of the arithmetic kernels: parameters, `rounds` times the body, then the comparison of all sums. Every sum
/// starts at a number of its own, lest the compiler finds that they are all the same and computes one.
struct Frame {
  std::string_view name;
  std::string_view version;
  int target = 0;
  std::string_view one_type;
  unsigned sums = 0;
};
std::string arithmetic(const Frame& frame, std::string_view body) {
  const auto& [name, version, target, one_type, sums] = frame;
  std::string text = fmt::format(
      ".version {0}\n.target sm_{1}\n.address_size 64\n"
      ".visible .entry {2}(.param .u64 wrong, .param .u32 rounds, .param .{3} one, .param .f32 expected)\n{{\n"
      "  .reg .pred %p<3>;\n  .reg .u32 %r<4>;\n  .reg .u64 %rd<3>;\n  .reg .f32 %f<{4}>;\n  .reg .{3} %one;\n"
      "  .reg .f32 %expected, %start;\n"
      "  ld.param.u64 %rd1, [wrong];\n  cvta.to.global.u64 %rd1, %rd1;\n  ld.param.u32 %r1, [rounds];\n"
      "  ld.param.{3} %one, [one];\n  ld.param.f32 %expected, [expected];\n",
      version, target, name, one_type, sums);
  text += fmt::format("  mov.u32 %r3, %tid.x;\n  mul.lo.u32 %r3, %r3, {};\n", sums);
  for (unsigned i = 0; i < sums; ++i) text += fmt::format("  cvt.rn.f32.u32 %f{}, %r3;\n  add.u32 %r3, %r3, 1;\n", i);
  text += fmt::format("again:\n{}  sub.u32 %r1, %r1, 1;\n  setp.ne.u32 %p1, %r1, 0;\n  @%p1 bra again;\n", body);
  text += fmt::format("  mov.u32 %r2, 0;\n  sub.u32 %r3, %r3, {};\n", sums);
  for (unsigned i = 0; i < sums; ++i)
    text += fmt::format(
        "  cvt.rn.f32.u32 %start, %r3;\n  add.u32 %r3, %r3, 1;\n  sub.f32 %f{0}, %f{0}, %start;\n"
        "  setp.neu.f32 %p2, %f{0}, %expected;\n  @%p2 add.u32 %r2, %r2, 1;\n",
        i);
  return text +
         "  setp.eq.u32 %p2, %r2, 0;\n  @%p2 bra done;\n  cvt.u64.u32 %rd2, %r2;\n"
         "  red.global.add.u64 [%rd1], %rd2;\ndone:\n  ret;\n}\n";
}

/// "%f4, %f5, %f6, %f7"
std::string registers(unsigned first, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i) text += fmt::format("{}%f{}", i == 0 ? "" : ", ", first + i);
  return text;
}

/// A round of mma instructions: all operands are ones, so each adds its depth to every sum.
std::string mma_round(std::string_view instruction, unsigned sums, unsigned a, unsigned b) {
  const auto ones = [](unsigned count) {
    std::string text = "%one";
    for (unsigned i = 1; i < count; ++i) text += ", %one";
    return text;
  };
  std::string text;
  for (unsigned step = 0; step < kSteps; ++step) {
    for (unsigned chain = 0; chain < kChains; ++chain) {
      const std::string own = registers(chain * sums, sums);
      text += fmt::format("  {} {{{}}}, {{{}}}, {{{}}}, {{{}}};\n", instruction, own, ones(a), ones(b), own);
    }
  }
  return text;
}

}  // namespace

std::string memory_kernels() {
  return fmt::format(R"(.version 6.0
.target sm_50
.address_size 64
.visible .entry {0}({2})
{{
{3}
  setp.ge.u64 %p2, %rd1, %rd2;
  @%p2 bra done;
again:
{4}
  st.global.u64 [%rd1], %rd10;
  add.u64 %rd1, %rd1, %rd3;
  setp.lt.u64 %p2, %rd1, %rd2;
  @%p2 bra again;
done:
  ret;
}}
.visible .entry {1}({2}, .param .u64 report, .param .u64 room)
{{
{3}
  ld.param.u64 %rd12, [report];
  cvta.to.global.u64 %rd12, %rd12;
  ld.param.u64 %rd13, [room];
  setp.ge.u64 %p2, %rd1, %rd2;
  @%p2 bra done;
again:
{4}
  ld.volatile.global.u64 %rd14, [%rd1];
  setp.eq.u64 %p2, %rd14, %rd10;
  @%p2 bra next;
  atom.global.add.u64 %rd15, [%rd12], 1;
  setp.ge.u64 %p2, %rd15, %rd13;
  @%p2 bra next;
  mul.lo.u64 %rd15, %rd15, 24;
  add.u64 %rd15, %rd15, %rd12;
  st.global.u64 [%rd15+8], %rd1;
  st.global.u64 [%rd15+16], %rd10;
  st.global.u64 [%rd15+24], %rd14;
next:
  add.u64 %rd1, %rd1, %rd3;
  setp.lt.u64 %p2, %rd1, %rd2;
  @%p2 bra again;
done:
  ret;
}}
)",
                     kFill, kCheck, kPatternParameters, kWalk, kWord);
}

std::string fma_kernel() {
  std::string body;
  for (unsigned step = 0; step < kSteps; ++step) {
    for (unsigned chain = 0; chain < kChains; ++chain)
      body += fmt::format("  fma.rn.f32 %f{0}, %f{0}, %one, %one;\n", chain);
  }
  return arithmetic({kFma, "6.0", 50, "f32", kChains}, body);
}

std::string mma_bf16_kernel() {
  return arithmetic({kMmaBf16, "7.0", 80, "b32", kChains * 4},
                    mma_round("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, 4, 2));
}

std::string mma_f16_kernel() {
  return arithmetic({kMmaF16, "6.5", 75, "b32", kChains * 4},
                    mma_round("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 4, 2, 1));
}

std::string mma_volta_kernel() {
  return arithmetic({kMmaVolta, "6.4", 70, "b32", kChains * 8},
                    mma_round("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", 8, 2, 2));
}

}  // namespace gpuwarden::burn_in
