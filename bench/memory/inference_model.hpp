// SPDX-License-Identifier: Apache-2.0
// What the synthetic kinds of inference are made of: weights, forward passes of transformers, chance.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "memory/device.hpp"
#include "memory/trace.hpp"

namespace gpuwarden::bench {

/// A transformer, in elements; weights and activations have two bytes each.
struct Shape {
  std::uint64_t layers = 0;
  std::uint64_t hidden = 0;
  std::uint64_t inner = 0;
  std::uint64_t vocabulary = 0;
};

/// Builds a trace. mt19937 is the same everywhere; the library's distributions are not.
class InferenceModel {
 public:
  InferenceModel(std::string name, unsigned seed) : random_(seed), builder_(std::move(name)) {}

  std::uint64_t take(std::uint64_t bytes) {
    builder_.allocate(next_, bytes);
    return next_++;
  }
  void drop(std::uint64_t id) { builder_.free(id); }
  void drop(std::vector<std::uint64_t>& ids) {
    for (const std::uint64_t id : ids) drop(id);
    ids.clear();
  }
  /// The new block is taken before the old one goes; 0: there is no old one.
  void replace(std::uint64_t& id, std::uint64_t bytes) {
    const std::uint64_t next = take(bytes);
    if (id != 0) drop(id);
    id = next;
  }
  /// Lives to the end.
  void keep(std::uint64_t bytes) { take(bytes); }

  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  bool chance(unsigned one_in) { return random_() % one_in == 0; }
  std::uint64_t log_uniform(double least, double most) {
    const double unit = static_cast<double>(random_()) / 4294967296.0;
    return static_cast<std::uint64_t>(least * std::pow(most / least, unit));
  }

  std::vector<std::uint64_t> weights(const Shape& shape) {
    std::vector<std::uint64_t> all;
    for (std::uint64_t layer = 0; layer < shape.layers; ++layer) {
      for (int i = 0; i < 4; ++i) all.push_back(take(shape.hidden * shape.hidden * 2));
      for (int i = 0; i < 3; ++i) all.push_back(take(shape.hidden * shape.inner * 2));
      for (int i = 0; i < 2; ++i) all.push_back(take(shape.hidden * 2));
    }
    all.push_back(take(shape.vocabulary * shape.hidden * 2));
    return all;
  }
  /// The weights of the model that forward() without a shape is about.
  void load(const Shape& shape) {
    shape_ = shape;
    weights(shape);
  }

  /// Blocks that follow each other: the next one is taken before the last one goes.
  void passing(std::initializer_list<std::uint64_t> sizes) {
    std::uint64_t last = 0;
    for (const std::uint64_t size : sizes) replace(last, size);
    if (last != 0) drop(last);
  }

  /// A forward pass over so many tokens, and logits of the last ones.
  void forward(const Shape& shape, std::uint64_t tokens, std::uint64_t last) {
    std::uint64_t hidden = take(tokens * shape.hidden * 2);
    for (std::uint64_t layer = 0; layer < shape.layers; ++layer) {
      const std::uint64_t normed = take(tokens * shape.hidden * 2);
      const std::uint64_t queries = take(3 * tokens * shape.hidden * 2);
      const std::uint64_t attended = take(tokens * shape.hidden * 2);
      drop(queries);
      drop(normed);
      const std::uint64_t gate = take(tokens * shape.inner * 2);
      const std::uint64_t up = take(tokens * shape.inner * 2);
      drop(attended);
      const std::uint64_t next = take(tokens * shape.hidden * 2);
      drop(gate);
      drop(up);
      drop(hidden);
      hidden = next;
    }
    const std::uint64_t logits = take(last * shape.vocabulary * 4);
    drop(hidden);
    drop(logits);
  }
  void forward(std::uint64_t tokens, std::uint64_t last) { forward(shape_, tokens, last); }

  Trace finish() { return builder_.finish(); }

 private:
  std::mt19937 random_;
  TraceBuilder builder_;
  Shape shape_;
  std::uint64_t next_ = 1;
};

// Kinds that the pool's constants were chosen without (kept_back_traces.cpp).
Trace padded_encoder();
Trace speech_beams();
Trace speculative();
Trace detection();
Trace retrieval();
Trace night_and_day();

}  // namespace gpuwarden::bench
