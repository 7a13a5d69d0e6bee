// SPDX-License-Identifier: Apache-2.0
// Kinds of inference that the pool's constants were chosen without.
#include <algorithm>
#include <cmath>
#include <vector>

#include "memory/inference_model.hpp"

namespace gpuwarden::bench {

/// Batches of sentences, padded to the longest, with naive attention.
Trace padded_encoder() {
  InferenceModel model("encoder", 21);
  const Shape shape{.layers = 12, .hidden = 1024, .inner = 4096, .vocabulary = 2};
  model.load(shape);
  for (unsigned request = 0; request < 220; ++request) {
    const std::uint64_t batch = 1 + model.below(64);
    const std::uint64_t longest = model.log_uniform(16, 512);
    const std::uint64_t mask = model.take(batch * longest * longest * 4);
    for (unsigned layer = 0; layer < 4; ++layer)
      model.passing({batch * 16 * longest * longest * 2, batch * 16 * longest * longest * 2});
    model.forward(batch * longest, batch);
    model.drop(mask);
  }
  return model.finish();
}

/// An encoder over half a minute of sound, then beams whose cache is reordered, that is, copied, at each step.
Trace speech_beams() {
  InferenceModel model("speech", 22);
  const Shape decoder{.layers = 4, .hidden = 1280, .inner = 5120, .vocabulary = 51866};
  model.load({.layers = 32, .hidden = 1280, .inner = 5120, .vocabulary = 2});
  model.weights(decoder);
  for (unsigned clip = 0; clip < 20; ++clip) {
    const std::uint64_t batch = 1 + model.below(12);
    model.forward(batch * 1500, 1);
    std::vector<std::uint64_t> cross;
    for (unsigned layer = 0; layer < 8; ++layer) cross.push_back(model.take(batch * 1500 * 1280 * 2));
    std::vector<std::uint64_t> cache(8, 0);
    const std::uint64_t words = model.log_uniform(8, 96);
    for (std::uint64_t word = 1; word <= words; ++word) {
      model.forward(decoder, batch * 5, batch * 5);
      for (std::uint64_t& one : cache) {
        model.replace(one, batch * 5 * word * 1280 * 2);
        model.replace(one, batch * 5 * word * 1280 * 2);
      }
    }
    model.drop(cache);
    model.drop(cross);
  }
  return model.finish();
}

/// A small model drafts a few words, a large one checks them; both caches grow by as many as were right.
Trace speculative() {
  InferenceModel model("drafts", 23);
  const Shape draft{.layers = 6, .hidden = 1024, .inner = 2816, .vocabulary = 32000};
  model.load({.layers = 32, .hidden = 4096, .inner = 11008, .vocabulary = 32000});
  model.weights(draft);
  struct Request {
    std::uint64_t tokens = 0;
    std::uint64_t last = 0;
    std::vector<std::uint64_t> blocks;
  };
  std::vector<Request> requests;
  for (unsigned step = 0; step < 160; ++step) {
    if (requests.size() < 16 && model.chance(3)) {
      const std::uint64_t prompt = model.log_uniform(128, 4096);
      model.forward(prompt, 1);
      requests.push_back({prompt, prompt + model.log_uniform(32, 256), {}});
    }
    if (requests.empty()) continue;
    for (unsigned word = 0; word < 4; ++word) model.forward(draft, requests.size(), requests.size());
    model.forward(5 * requests.size(), 5 * requests.size());
    for (Request& one : requests) {
      one.tokens += 1 + model.below(4);
      while (one.blocks.size() * 64 < one.tokens) one.blocks.push_back(model.take(64 * 32 * 4096 * 2 * 2));
    }
    std::erase_if(requests, [&](Request& one) {
      if (one.tokens < one.last) return false;
      model.drop(one.blocks);
      return true;
    });
  }
  return model.finish();
}

/// Pictures of any size through a pyramid; as many regions as there are things in them.
Trace detection() {
  InferenceModel model("detection", 24);
  for (unsigned i = 0; i < 160; ++i) model.keep(model.log_uniform(512, 8 << 20));
  for (unsigned picture = 0; picture < 420; ++picture) {
    const std::uint64_t pixels = model.log_uniform(300, 1400) * model.log_uniform(300, 2000);
    const std::uint64_t input = model.take(pixels * 3 * 4);
    std::vector<std::uint64_t> levels;
    for (unsigned level = 1; level < 6; ++level) {
      const std::uint64_t bytes = (pixels >> (2 * level)) * (64U << std::min(level, 5U)) * 4;
      for (unsigned block = 0; block < 3; ++block) model.passing({bytes / 4, bytes / 4, bytes});
      levels.push_back(model.take(bytes / 4 + 512));
    }
    const std::uint64_t regions = 1 + model.log_uniform(1, 1000);
    model.passing({regions * 256 * 49 * 4, regions * 1024 * 4, regions * 1024 * 4, regions * 364 * 4});
    const std::uint64_t found = 1 + model.below(100);
    model.passing({found * 256 * 196 * 4, found * 256 * 784 * 4, found * pixels});
    model.drop(levels);
    model.drop(input);
  }
  return model.finish();
}

/// Embeddings of any number of pieces of text, a search over an index that grows, a list of answers that is ranked.
Trace retrieval() {
  InferenceModel model("retrieval", 25);
  const Shape ranker{.layers = 6, .hidden = 384, .inner = 1536, .vocabulary = 1};
  model.load({.layers = 12, .hidden = 768, .inner = 3072, .vocabulary = 2});
  model.weights(ranker);
  std::uint64_t rows = 200'000;
  std::uint64_t index = model.take(rows * 768 * 4);
  for (unsigned request = 0; request < 320; ++request) {
    model.forward(model.log_uniform(16, 24000), 1);
    const std::uint64_t queries = model.log_uniform(1, 512);
    model.passing({queries * 768 * 4, queries * rows, queries * 100 * 8});
    model.forward(ranker, model.log_uniform(2000, 60000), 100);
    if (request % 40 != 39) continue;
    rows += rows / 10;
    model.replace(index, rows * 768 * 4);
  }
  return model.finish();
}

/// Load rises and falls three times, by a factor of thirty.
Trace night_and_day() {
  InferenceModel model("night and day", 26);
  model.load({.layers = 28, .hidden = 3072, .inner = 8192, .vocabulary = 128256});
  struct Request {
    std::uint64_t last;
    std::uint64_t cache;
  };
  std::vector<Request> requests;
  constexpr std::uint64_t kSteps = 240;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const double sun = std::cos(6.0 * 3.14159265 * static_cast<double>(step) / kSteps);
    const auto wanted = static_cast<std::size_t>(2 + 30 * (1 - sun));
    std::uint64_t tokens = requests.size();
    for (unsigned i = 0; requests.size() < wanted && i < 4; ++i) {
      const std::uint64_t prompt = model.log_uniform(64, 2048);
      tokens += prompt;
      requests.push_back({step + model.log_uniform(8, 60), model.take((prompt + 256) * 28 * 2048 * 2)});
    }
    if (tokens != 0) model.forward(tokens, std::max<std::size_t>(requests.size(), 1));
    std::erase_if(requests, [&](const Request& one) {
      if (step < one.last) return false;
      model.drop(one.cache);
      return true;
    });
  }
  return model.finish();
}

}  // namespace gpuwarden::bench
