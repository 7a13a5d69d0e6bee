// SPDX-License-Identifier: Apache-2.0
// How fast and how right the GPU computes: sums of ones in registers, whose results are known, and cuBLAS's matrix
// product where that library is there.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <optional>

#include "burn_in/bench.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::burn_in {

namespace {

constexpr unsigned kBlocksPerMultiprocessor = 4;
constexpr unsigned kWarp = 32;
constexpr std::chrono::milliseconds kShortTime{400};
constexpr std::chrono::milliseconds kLongTime{1500};
/// Of the matrices: large enough to be bound by arithmetic alone; the smaller one for GPUs with little free memory.
constexpr int kLargeMatrix = 8192;
constexpr int kSmallMatrix = 2048;

/// One way of adding ones.
struct Sum {
  std::string_view figure;
  std::string_view method;
  std::string_view function;
  std::string (*text)();
  unsigned one;                  ///< the operand: 1.0, or two of them packed
  unsigned depth;                ///< what each step adds
  unsigned rounds;               ///< some milliseconds
  double operations_per_thread;  ///< floating-point operations of one thread in one step of one chain
};

/// A step of mma.sync is 2 * m * n * k operations of a warp; of m8n8k4, a warp does four.
constexpr Sum kFp32{"fp32", "fma in registers", kFma, fma_kernel, 0x3F800000, 1, 2000, 2};
constexpr Sum kBf16{"tensor_bf16", "mma.sync m16n8k16 in registers", kMmaBf16, mma_bf16_kernel, 0x3F803F80, 16,
                    500,           2.0 * 16 * 8 * 16 / kWarp};
constexpr Sum kF16{"tensor_f16", "mma.sync m16n8k8 in registers", kMmaF16, mma_f16_kernel, 0x3C003C00, 8,
                   500,          2.0 * 16 * 8 * 8 / kWarp};
constexpr Sum kVolta{"tensor_f16", "mma.sync m8n8k4 in registers", kMmaVolta, mma_volta_kernel, 0x3C003C00, 4,
                     500,          4 * 2.0 * 8 * 8 * 4 / kWarp};

const Sum* tensor_sum(int capability) {
  if (capability >= 80) return &kBf16;
  if (capability >= 75) return &kF16;
  return capability >= 70 ? &kVolta : nullptr;
}

/// A driver too old for the instruction is no fault of the GPU.
Result<void> left_out(const Error& error, std::string_view what, facts::BurnInGpu& gpu) {
  if (error.code != ErrorCode::unsatisfied && error.code != ErrorCode::timed_out) return std::unexpected(error);
  gpu.notes.push_back(fmt::format("{}: {}", what, error.message));
  return {};
}

Result<double> run_sum(const Bench& bench, const Sum& sum, std::uint64_t& wrong) {
  GPUWARDEN_TRY(const cuda::Function function, bench.compile(sum.text(), sum.function));
  GPUWARDEN_TRY(const Buffer counter, Buffer::allocate(bench.cuda(), sizeof(std::uint64_t)));
  GPUWARDEN_CUDA(bench.cuda(), set_bytes, counter.address(), 0, counter.bytes(), bench.stream());
  unsigned long long address = counter.address();
  unsigned rounds = sum.rounds;
  unsigned one = sum.one;
  auto expected = static_cast<float>(rounds * kSteps * sum.depth);
  const unsigned blocks = static_cast<unsigned>(bench.multiprocessors()) * kBlocksPerMultiprocessor;
  bench.announce("load");
  GPUWARDEN_TRY(
      const Timing timing,
      bench.time([&] { return bench.launch(function, blocks, {&address, &rounds, &one, &expected}); }, kShortTime));
  std::uint64_t count = 0;
  GPUWARDEN_CUDA(bench.cuda(), to_host, &count, counter.address(), sizeof count, bench.stream());
  GPUWARDEN_CHECK(bench.finish());
  wrong += count;
  const double operations = sum.operations_per_thread * kChains * kSteps * rounds * blocks * kThreads;
  return operations / timing.mean / 1e12;
}

Result<void> test_sum(const Bench& bench, const Sum& sum, facts::BurnInGpu& gpu) {
  const auto rate = run_sum(bench, sum, gpu.wrong_results);
  if (!rate) return left_out(rate.error(), sum.figure, gpu);
  gpu.figures.push_back(
      {.id = std::string(sum.figure), .value = *rate, .unit = "TFLOPS", .method = std::string(sum.method)});
  return {};
}

/// A product of matrices as cuBLAS makes it. Words of 8 bytes are random but for `keep` and `flip` (see Pattern):
/// numbers of both signs between 1 and 2, and integers of any size.
struct Product {
  std::string_view figure;
  std::string_view sum;  ///< in what it is added up
  int capability;        ///< from which on there are units for it
  std::size_t bytes;     ///< of an element
  int type;
  std::size_t result_bytes;
  int result_type;
  int compute;
  unsigned long long keep;
  unsigned long long flip;
};

/// The first that a GPU has is the one that it is judged by. Of 8-bit floats cublasGemmEx knows nothing.
constexpr auto kProducts = std::to_array<Product>({
    {"matrix_bf16", "summed in fp32", 80, 2, cuda::kReal16Bf, 2, cuda::kReal16Bf, cuda::kCompute32F,
     0x807F807F807F807FULL, 0x3F803F803F803F80ULL},
    {"matrix_f16", "summed in fp32", 70, 2, cuda::kReal16F, 2, cuda::kReal16F, cuda::kCompute32F, 0x83FF83FF83FF83FFULL,
     0x3C003C003C003C00ULL},
    {"matrix_tf32", "fp32 by tensor cores", 80, 4, cuda::kReal32F, 4, cuda::kReal32F, cuda::kCompute32FFastTf32,
     0x807FFFFF807FFFFFULL, 0x3F8000003F800000ULL},
    {"matrix_int8", "summed in int32", 75, 1, cuda::kReal8I, 4, cuda::kReal32I, cuda::kCompute32I,
     0xFFFFFFFFFFFFFFFFULL, 0},
    {"matrix_fp32", "without tensor cores", 0, 4, cuda::kReal32F, 4, cuda::kReal32F, cuda::kCompute32F,
     0x807FFFFF807FFFFFULL, 0x3F8000003F800000ULL},
});

Result<void> fill_randomly(const Bench& bench, cuda::Function fill, const Buffer& buffer, const Product& product) {
  unsigned long long address = buffer.address();
  unsigned long long words = buffer.bytes() / sizeof(std::uint64_t);
  unsigned long long keep = product.keep;
  unsigned long long flip = product.flip;
  unsigned scramble = 1;
  return bench.launch(fill, static_cast<unsigned>(bench.multiprocessors()) * kBlocksPerMultiprocessor,
                      {&address, &words, &keep, &flip, &scramble});
}

Result<double> multiply(const Bench& bench, const Cublas& cublas, int size, const Product& product) {
  const std::size_t elements = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  GPUWARDEN_TRY(const Buffer a, Buffer::allocate(bench.cuda(), elements * product.bytes));
  GPUWARDEN_TRY(const Buffer b, Buffer::allocate(bench.cuda(), elements * product.bytes));
  GPUWARDEN_TRY(const Buffer c, Buffer::allocate(bench.cuda(), elements * product.result_bytes));
  GPUWARDEN_TRY(const cuda::Function fill, bench.compile(memory_kernels(), kFill));
  GPUWARDEN_CHECK(fill_randomly(bench, fill, a, product));
  GPUWARDEN_CHECK(fill_randomly(bench, fill, b, product));
  const auto& f = cublas.functions;
  const auto unfit = [&](std::string_view call, int status) {
    return fail(ErrorCode::unsatisfied, fmt::format("{} of {} failed with status {}", call, cublas.name, status));
  };
  cuda::CublasHandle handle = nullptr;
  if (const int status = f.create(&handle); status != cuda::kCublasSuccess) return unfit("cublasCreate", status);
  if (const int status = f.set_stream(handle, bench.stream()); status != cuda::kCublasSuccess)
    return unfit("cublasSetStream", status);
  // The factors are of the type in which it is summed; integers are multiplied by tensor cores in this order alone
  // (source: NVIDIA, cuBLAS, cublasGemmEx).
  const float one = 1;
  const float zero = 0;
  const std::int32_t whole_one = 1;
  const std::int32_t whole_zero = 0;
  const bool whole = product.compute == cuda::kCompute32I;
  const void* alpha = whole ? static_cast<const void*>(&whole_one) : &one;
  const void* beta = whole ? static_cast<const void*>(&whole_zero) : &zero;
  const int first = whole ? cuda::kCublasTranspose : cuda::kCublasNoTranspose;
  const auto address = [](const Buffer& buffer) { return std::bit_cast<void*>(buffer.address()); };
  const auto work = [&]() -> Result<void> {
    const int status = f.multiply(handle, first, cuda::kCublasNoTranspose, size, size, size, alpha, address(a),
                                  product.type, size, address(b), product.type, size, beta, address(c),
                                  product.result_type, size, product.compute, cuda::kGemmDefault);
    if (status != cuda::kCublasSuccess) return unfit("cublasGemmEx", status);
    return {};
  };
  GPUWARDEN_CHECK(work());
  bench.announce("load");
  GPUWARDEN_TRY(const Timing timing, bench.time(work, kLongTime));
  return 2.0 * size * size * size / timing.mean / 1e12;
}

/// Whether this library multiplies; what it does not is noted.
Result<bool> test_product(const Bench& bench, const Cublas& cublas, const Product& product, facts::BurnInGpu& gpu) {
  GPUWARDEN_TRY(const Bench::Memory memory, bench.memory());
  const std::size_t elements = std::size_t{kLargeMatrix} * kLargeMatrix;
  const bool large = memory.free > elements * (2 * product.bytes + product.result_bytes) * 4 / 3;
  const int size = large ? kLargeMatrix : kSmallMatrix;
  const auto rate = multiply(bench, cublas, size, product);
  if (!rate) {
    GPUWARDEN_CHECK(left_out(rate.error(), spaced(product.figure), gpu));
    return false;
  }
  gpu.figures.push_back({.id = std::string(product.figure),
                         .value = *rate,
                         .unit = product.compute == cuda::kCompute32I ? "TOPS" : "TFLOPS",
                         .method = fmt::format("cublasGemmEx of {}, {}^3, {}", cublas.name, size, product.sum)});
  return true;
}

}  // namespace

Result<void> test_arithmetic(const Bench& bench, facts::BurnInGpu& gpu) {
  GPUWARDEN_CHECK(test_sum(bench, kFp32, gpu));
  if (const Sum* tensor = tensor_sum(bench.capability())) return test_sum(bench, *tensor, gpu);
  gpu.notes.emplace_back("tensor cores: this GPU has none");
  return {};
}

Result<void> test_matrix_product(const Bench& bench, const std::vector<std::filesystem::path>& libraries,
                                 bool all_types, facts::BurnInGpu& gpu) {
  std::vector<const Product*> products;
  for (const Product& one : kProducts) {
    const bool judged = one.capability >= 70 && products.empty();
    if (bench.capability() >= one.capability && (judged || all_types)) products.push_back(&one);
  }
  if (products.empty()) return {};
  for (const auto& library : libraries) {
    const auto cublas = open_cublas(library);
    if (!cublas) continue;
    // Where it cannot make the first one, another release may go with this driver.
    GPUWARDEN_TRY(const bool works, test_product(bench, *cublas, *products.front(), gpu));
    if (!works) continue;
    for (std::size_t i = 1; i < products.size() && !bench.out_of_time(); ++i) {
      if (const auto other = test_product(bench, *cublas, *products[i], gpu); !other)
        return std::unexpected(other.error());
    }
    return {};
  }
  gpu.notes.emplace_back("matrix product: no working libcublas was found; the tensor figure is our own kernel's");
  return {};
}

}  // namespace gpuwarden::burn_in
