// SPDX-License-Identifier: Apache-2.0
// What a view is shown on and steered from.
#pragma once

#include <chrono>
#include <optional>

#include "gpuwarden/view/canvas.hpp"
#include "gpuwarden/view/key.hpp"

namespace gpuwarden::view {

/// A terminal, or what stands for one. Used from one thread, but for wake().
class Screen {
 public:
  Screen() = default;
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  virtual ~Screen() = default;

  virtual Extent extent() const = 0;
  /// The next key; nothing where none came in time or somebody called wake(). A change of size is a key.
  virtual std::optional<Key> read(std::chrono::milliseconds wait) = 0;
  /// Writes what differs from what was shown last.
  virtual void show(const Canvas& canvas) = 0;
  /// Whether the mouse is asked for; without, the terminal selects text with it.
  virtual void set_mouse(bool on) = 0;
  /// The next show() writes everything.
  virtual void forget() = 0;
  /// Ends a read() that waits, or the next one. From any thread.
  virtual void wake() = 0;
};

}  // namespace gpuwarden::view
