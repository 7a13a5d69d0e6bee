// SPDX-License-Identifier: Apache-2.0
// A small real job, as `gpuwarden run` starts it: each rank finds the largest eigenvalue of its share of a matrix
// family by power iteration and prints a result that can be checked. It computes on the CPU and says so; what it shows
// is how a job gets its GPUs, rank and world size.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "gpu_part.hpp"

namespace {

unsigned number(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : otherwise;
}

/// The symmetric matrix with 2 on the diagonal and -1 beside it; its largest eigenvalue is 2 + 2 cos(pi / (n + 1)).
double largest_eigenvalue(std::size_t n, int iterations) {
  std::vector<double> matrix(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    matrix[i * n + i] = 2;
    if (i > 0) matrix[i * n + i - 1] = matrix[(i - 1) * n + i] = -1;
  }
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = i % 2 == 0 ? 1.0 : -0.9;
  double value = 0;
  for (int round = 0; round < iterations; ++round) {
    std::vector<double> y(n, 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) y[i] += matrix[i * n + j] * x[j];
    }
    double norm = 0;
    for (const double v : y) norm += v * v;
    value = std::sqrt(norm);
    for (std::size_t i = 0; i < n; ++i) x[i] = y[i] / value;
  }
  return value;
}

}  // namespace

int main() {
  const unsigned rank = number("RANK", 0);
  const unsigned world = std::max(1U, number("WORLD_SIZE", 1));
  const char* gpus = std::getenv("CUDA_VISIBLE_DEVICES");
  const bool has_gpu = gpus == nullptr || *gpus != '\0';
  std::printf("rank %u of %u, GPUs: %s\n", rank, world, gpus != nullptr && has_gpu ? gpus : "none");
  std::fflush(stdout);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const auto on_gpu = has_gpu ? example::run_on_gpu(number("LOCAL_RANK", 0), 3) : std::nullopt;
  if (on_gpu) {
    std::printf("rank %u: %d vector sums on the GPU in %.1f s, largest error %.4f\n", rank, on_gpu->launches, seconds(),
                on_gpu->largest_error);
    return on_gpu->launches > 0 && on_gpu->largest_error == 0 ? 0 : 1;
  }
  double error = 0;
  int done = 0;
  for (unsigned k = rank; k < 8; k += world) {
    const std::size_t n = 600 + 50 * k;  // up to 7 MB each
    const double found = largest_eigenvalue(n, 400);
    const double exact = 2 + 2 * std::cos(std::acos(-1.0) / static_cast<double>(n + 1));
    error = std::max(error, std::abs(found - exact));
    ++done;
  }
  std::printf("rank %u: %d matrices on the CPU (no CUDA driver) in %.1f s, largest error %.4f\n", rank, done, seconds(),
              error);
  return error >= 0 && error < 0.05 ? 0 : 1;
}
