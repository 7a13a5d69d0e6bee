// SPDX-License-Identifier: Apache-2.0
#include "probe/holder_search.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "probe/reading.hpp"

namespace gpuwarden::probe {

HolderSearch::HolderSearch(const ReaderOptions& options, std::stop_token stop)
    : options_(options), stop_(std::move(stop)), child_(ChildProcess::start([&options](int fd) {
        send_message(fd, {{"holders", to_json(find_holders(options.driver_proc_root, options.proc_roots))}});
      })) {
  if (!child_) given_up_.emplace();
}

void HolderSearch::wait() {
  if (!child_) return;
  const auto message = child_->receive(options_.timeout, stop_);
  if (message && message->contains("holders"))
    found_ = holders_from_json((*message)["holders"]);
  else
    given_up_ = silence_of(*child_);
  child_.reset();
}

void HolderSearch::add_to(facts::Snapshot& snapshot) {
  wait();
  if (given_up_) snapshot.gaps.push_back(explain_gap(facts::ReadingGap::Part::holders, *given_up_, options_.timeout));
  if (!found_) return;
  drop_ended(options_.driver_proc_root, *found_);
  add_holders(*found_, snapshot);
}

}  // namespace gpuwarden::probe
