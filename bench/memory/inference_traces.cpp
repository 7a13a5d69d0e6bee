// SPDX-License-Identifier: Apache-2.0
// Kinds of inference whose demand swings or whose shapes change. Synthetic and seeded; shapes are those of published
// models, sizes what eager frameworks ask for.
#include <algorithm>
#include <array>
#include <vector>

#include "memory/inference_model.hpp"

namespace gpuwarden::bench {
namespace {

/// Requests join and leave a batch at each step; keys and values lie in a paged cache that is taken once.
Trace continuous_batching() {
  InferenceModel model("continuous batching", 11);
  model.load({.layers = 24, .hidden = 2048, .inner = 5632, .vocabulary = 32000});
  model.keep(6 * kGiB);
  std::vector<std::uint64_t> left;
  for (unsigned step = 0; step < 500; ++step) {
    std::uint64_t tokens = 0;
    while (left.size() < 64 && model.chance(8)) {
      tokens += model.log_uniform(32, 2048);
      left.push_back(model.log_uniform(16, 512));
    }
    tokens += left.size();
    for (std::uint64_t& one : left) --one;
    std::erase(left, 0U);
    if (tokens != 0) model.forward(tokens, std::min<std::uint64_t>(tokens, 64));
  }
  return model.finish();
}

/// Long prompts arrive together, then there is little to do for a while.
Trace bursty_prefill() {
  InferenceModel model("bursty prefill", 12);
  model.load({.layers = 16, .hidden = 4096, .inner = 11008, .vocabulary = 32000});
  for (unsigned burst = 0; burst < 40; ++burst) {
    const std::uint64_t prompts = 1 + model.below(6);
    for (std::uint64_t i = 0; i < prompts; ++i) model.forward(model.log_uniform(512, 16384), 1);
    const std::uint64_t quiet = 4 + model.below(16);
    for (std::uint64_t i = 0; i < quiet; ++i) model.forward(1 + model.below(prompts), prompts);
  }
  return model.finish();
}

/// Each layer's keys and values are one tensor that is copied to one longer by a token, as torch.cat does.
Trace growing_cache() {
  InferenceModel model("decoding by concatenation", 13);
  model.load({.layers = 16, .hidden = 2048, .inner = 8192, .vocabulary = 128256});
  for (unsigned request = 0; request < 12; ++request) {
    const std::uint64_t batch = 1 + model.below(8);
    const std::uint64_t prompt = model.log_uniform(64, 3072);
    const std::uint64_t last = prompt + model.log_uniform(16, 128);
    std::vector<std::uint64_t> cache(32, 0);
    for (std::uint64_t tokens = prompt; tokens < last; ++tokens) {
      model.forward(tokens == prompt ? batch * prompt : batch, batch);
      for (std::uint64_t& one : cache) model.replace(one, batch * tokens * 1024);
    }
    model.drop(cache);
  }
  return model.finish();
}

/// Pictures of changing sizes: twenty steps through a U-shaped network, then a decoder with a high crest.
Trace diffusion() {
  InferenceModel model("diffusion", 14);
  model.keep(std::uint64_t{2567} * kMiB);
  for (unsigned picture = 0; picture < 24; ++picture) {
    constexpr std::array<std::uint64_t, 7> kSides{512, 640, 768, 832, 1024, 1216, 1344};
    const std::uint64_t pixels = kSides[model.below(7)] * kSides[model.below(7)];
    const std::uint64_t batch = 2 * (1 + model.below(2));
    const std::uint64_t latent = model.take(batch * pixels / 64 * 4 * 4);
    for (unsigned step = 0; step < 20; ++step) {
      std::vector<std::uint64_t> skipped;
      for (unsigned level = 0; level < 3; ++level) {
        const std::uint64_t bytes = batch * (pixels / 64 >> (2 * level)) * (320U << level) * 2;
        for (unsigned block = 0; block < 2; ++block) {
          model.passing({bytes, bytes, 3 * bytes, 4 * bytes});
          skipped.push_back(model.take(bytes));
        }
      }
      while (!skipped.empty()) {
        model.passing({2 * 327680, 320 * batch * pixels / 64});
        model.drop(skipped.back());
        skipped.pop_back();
      }
    }
    for (unsigned level = 0; level < 4; ++level) {
      const std::uint64_t bytes = batch / 2 * (pixels >> (2 * (3 - level))) * (512U >> (level / 2)) * 2;
      model.passing({bytes, bytes, 2 * bytes});
    }
    model.drop(latent);
  }
  return model.finish();
}

/// Three models share the GPU; one of them is loaded and unloaded as it is asked for.
Trace mixed_models() {
  InferenceModel model("mixed models", 15);
  model.load({.layers = 12, .hidden = 768, .inner = 3072, .vocabulary = 30522});
  const Shape reranker{.layers = 24, .hidden = 1024, .inner = 4096, .vocabulary = 2};
  const Shape writer{.layers = 22, .hidden = 2048, .inner = 5632, .vocabulary = 32000};
  std::vector<std::uint64_t> weights;
  for (unsigned request = 0; request < 700; ++request) {
    const std::uint64_t which = model.below(8);
    if (which == 0 && !weights.empty()) {
      model.drop(weights);
    } else if (which == 1) {
      if (weights.empty()) weights = model.weights(writer);
      for (unsigned step = 0; step < 8; ++step) model.forward(writer, step == 0 ? model.log_uniform(32, 4096) : 4, 4);
    } else if (which < 4) {
      model.forward(reranker, model.log_uniform(512, 16384), 16);
    } else {
      model.forward(model.log_uniform(64, 32768), 1);
    }
  }
  return model.finish();
}

/// A picture model and a language model in turn, with pictures of any size.
Trace vision_language() {
  InferenceModel model("vision and language", 16);
  model.load({.layers = 24, .hidden = 1024, .inner = 4096, .vocabulary = 2});
  const Shape language{.layers = 28, .hidden = 1536, .inner = 8960, .vocabulary = 151936};
  model.weights(language);
  for (unsigned request = 0; request < 120; ++request) {
    const std::uint64_t patches = model.log_uniform(256, 16384);
    model.forward(patches, 1);
    const std::uint64_t tokens = patches / 4 + model.log_uniform(16, 512);
    std::vector<std::uint64_t> cache;
    for (unsigned layer = 0; layer < 28; ++layer) cache.push_back(model.take((tokens + 64) * 1024));
    model.forward(language, tokens, 1);
    for (unsigned step = 0; step < 3; ++step) model.forward(language, 1, 1);
    model.drop(cache);
  }
  return model.finish();
}

}  // namespace

std::span<const InferenceTrace> inference_traces() {
  static constexpr std::array kTraces{
      InferenceTrace{"continuous batching", false, continuous_batching},
      InferenceTrace{"bursty prefill", false, bursty_prefill},
      InferenceTrace{"decoding by concatenation", false, growing_cache},
      InferenceTrace{"diffusion", false, diffusion},
      InferenceTrace{"mixed models", false, mixed_models},
      InferenceTrace{"vision and language", false, vision_language},
      InferenceTrace{"encoder, padded batches", true, padded_encoder},
      InferenceTrace{"speech, beams", true, speech_beams},
      InferenceTrace{"drafts and checks", true, speculative},
      InferenceTrace{"detection", true, detection},
      InferenceTrace{"retrieval", true, retrieval},
      InferenceTrace{"night and day", true, night_and_day},
  };
  return kTraces;
}

}  // namespace gpuwarden::bench
