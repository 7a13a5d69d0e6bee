// SPDX-License-Identifier: Apache-2.0
// A screen with a script: keys come from a list, frames are kept.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "gpuwarden/view/screen.hpp"
#include "support/fake_clock.hpp"

namespace gpuwarden::testing {

/// Reads give the next step of the script: a key, or (no key) the whole wait passes on the clock. At its end it calls
/// `finished` once, and waits from then on.
class ScriptedScreen final : public view::Screen {
 public:
  ScriptedScreen(view::Extent extent, FakeClock& clock) : extent_(extent), clock_(clock) {}

  view::Extent extent() const override { return extent_; }
  std::optional<view::Key> read(std::chrono::milliseconds wait) override {
    if (!script.empty() && script.front()) {
      const auto key = script.front();
      script.pop_front();
      return key;
    }
    if (wait.count() == 0) return std::nullopt;
    if (!script.empty()) script.pop_front();
    clock_.advance(wait);
    if (passed) passed();
    if (script.empty() && finished) finished();
    return std::nullopt;
  }
  void show(const view::Canvas& canvas) override { frames.push_back(canvas); }
  void set_mouse(bool on) override { mouse = on; }
  void forget() override { ++forgotten; }
  void wake() override {}

  std::deque<std::optional<view::Key>> script;
  std::function<void()> passed;    ///< after each wait
  std::function<void()> finished;  ///< when the script is over
  std::vector<view::Canvas> frames;
  bool mouse = false;
  int forgotten = 0;

 private:
  view::Extent extent_;
  FakeClock& clock_;
};

}  // namespace gpuwarden::testing
