// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/app.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/view/draw.hpp"
#include "gpuwarden/view/keys.hpp"
#include "gpuwarden/view/trail.hpp"

namespace gpuwarden::view {
namespace {

/// What a source tells is drawn at most this often.
constexpr std::chrono::milliseconds kBetweenFrames(250);
/// How long a frame may be without looking whether something has grown stale.
constexpr std::chrono::milliseconds kLongestWait = std::chrono::seconds(1);

bool same_nodes(const std::vector<cluster::Node>& a, const std::vector<cluster::Node>& b) {
  return std::ranges::equal(a, b, [](const cluster::Node& one, const cluster::Node& other) {
    return one.reading == other.reading && one.name == other.name && one.problem == other.problem &&
           one.alerts == other.alerts && one.health == other.health;
  });
}

class App {
 public:
  App(const Parts& parts, ViewState state, const RunOptions& options)
      : parts_(parts), state_(std::move(state)), options_(options), trail_(options.interval) {
    scene_.interval = options.interval;
    scene_.captured = options.captured;
    // A capture has no history.
    scene_.trail = options.captured ? nullptr : &trail_;
  }

  void run(const std::stop_token& stop) {
    parts_.screen.set_mouse(state_.mouse);
    look();
    show();
    while (!stop.stop_requested() && !state_.done) {
      const auto key = parts_.screen.read(wait_time());
      if (key) take_keys(*key);
      if (stop.stop_requested() || state_.done) break;
      // A key changes the frame at once; what was read meanwhile waits for its turn.
      waiting_ = !key && seen_any_ && parts_.clock.now() - shown_at_ < kBetweenFrames;
      if (waiting_) continue;
      look();
      show();
    }
  }

 private:
  std::chrono::milliseconds wait_time() const {
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(parts_.clock.now() - shown_at_);
    return waiting_ ? std::max(kBetweenFrames - passed, std::chrono::milliseconds(1)) : kLongestWait;
  }

  /// Asks the source, and keeps what is new.
  void look() {
    auto nodes = parts_.nodes.nodes();
    const auto now = parts_.clock.now();
    const bool any =
        std::ranges::any_of(nodes, [](const cluster::Node& node) { return node.reading != nullptr || node.problem; });
    const bool due = nodes.size() == 1 || !seen_any_ || now - added_at_ >= options_.interval;
    if (any && due && !same_nodes(nodes, live_)) {
      trail_.add(nodes, now, parts_.clock.wall_now());
      added_at_ = now;
      look_at_host_ = true;
    }
    seen_any_ = seen_any_ || any;
    live_ = std::move(nodes);
  }

  void choose_moment() {
    scene_.now = parts_.clock.wall_now();
    scene_.behind.reset();
    scene_.nodes = live_;
    const auto& moments = trail_.moments();
    scene_.slot = moments.empty() ? 0 : moments.back().slot;
    if (!state_.held_at || moments.empty()) return;
    const auto found = std::ranges::lower_bound(moments, *state_.held_at, {}, &Moment::slot);
    const Moment& moment = found == moments.end() ? moments.back() : *found;
    state_.held_at = moment.slot;
    scene_.slot = moment.slot;
    scene_.nodes = moment.nodes;
    scene_.behind = std::chrono::duration_cast<std::chrono::milliseconds>(scene_.now - moment.time);
  }

  void look_at_host(Extent extent) {
    if (parts_.host == nullptr || scene_.behind) return;
    scene_.host = parts_.host->latest();
    if (!std::exchange(look_at_host_, false)) return;
    parts_.host->look_at(processes_in_sight(state_, scene_, extent), state_.tree,
                         [&screen = parts_.screen] { screen.wake(); });
  }

  void show() {
    const Extent extent = parts_.screen.extent();
    choose_moment();
    look_at_host(extent);
    settle(state_, scene_, extent);
    parts_.screen.show(draw(state_, scene_, extent));
    shown_at_ = parts_.clock.now();
  }

  /// All keys that are there already: a frame for each would lag behind a key that is held down.
  void take_keys(Key key) {
    constexpr int kMostAtOnce = 64;
    for (int i = 0; i < kMostAtOnce; ++i) {
      apply(key, state_, scene_, parts_.screen.extent());
      do_requests();
      choose_moment();
      settle(state_, scene_, parts_.screen.extent());
      look_at_host_ = true;
      if (state_.done) return;
      const auto next = parts_.screen.read(std::chrono::milliseconds(0));
      if (!next) return;
      key = *next;
    }
  }

  void do_requests() {
    for (const Request& request : std::exchange(state_.requests, {}))
      std::visit([this](const auto& what) { act(what); }, request);
  }
  void act(const RedrawAll& /*request*/) { parts_.screen.forget(); }
  void act(const SetMouse& request) { parts_.screen.set_mouse(request.on); }
  void act(const Acknowledge& request) {
    tell(parts_.actions.acknowledge(request.node, request.alert), "acknowledged");
    look();
  }
  void act(const SendSignals& request) {
    std::size_t sent = 0;
    Result<void> failed;
    for (const Target& target : request.targets) {
      auto result = parts_.actions.signal(target, request.signal);
      if (result)
        ++sent;
      else
        failed = std::move(result);
    }
    state_.tagged.clear();
    tell(failed, fmt::format("signal {} sent to {} process{}", request.signal, sent, sent == 1 ? "" : "es"));
  }
  void tell(const Result<void>& result, const std::string& done) {
    state_.message_is_error = !result.has_value();
    state_.message = result ? done : result.error().message;
    if (!result && !result.error().hint.empty()) state_.message += " (" + result.error().hint + ")";
  }

  Parts parts_;
  ViewState state_;
  RunOptions options_;
  Trail trail_;
  Scene scene_;
  std::vector<cluster::Node> live_;
  Clock::SteadyTime shown_at_{};
  Clock::SteadyTime added_at_{};
  bool seen_any_ = false;
  bool look_at_host_ = false;
  bool waiting_ = false;  ///< something is new, and the next frame not yet due
};

}  // namespace

void run(const Parts& parts, ViewState state, const RunOptions& options, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [&parts] { parts.screen.wake(); });
  App(parts, std::move(state), options).run(stop);
}

Canvas draw_once(std::vector<cluster::Node> nodes, ViewState state, Extent extent, bool captured, Clock& clock) {
  Scene scene;
  scene.nodes = std::move(nodes);
  scene.now = clock.wall_now();
  scene.captured = captured;
  settle(state, scene, extent);
  return draw(state, scene, extent);
}

}  // namespace gpuwarden::view
