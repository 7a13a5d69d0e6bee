// SPDX-License-Identifier: Apache-2.0
// Answers that go on: each sends what its Stream has, as fast as its reader takes it.
#pragma once

#include <list>
#include <memory>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/serve/http.hpp"
#include "serve/transport.hpp"

namespace gpuwarden::serve {

class Streams {
 public:
  /// Begins an answer; it goes on until its reader leaves, is too slow, or end() is called.
  void begin(evhttp_request& request, Response response, Clock::SteadyTime now);
  /// Sends what there is.
  void pump(Clock::SteadyTime now);
  /// Ends all in order.
  void end();

 private:
  struct Live {
    Streams* owner = nullptr;
    evhttp_request* request = nullptr;
    std::unique_ptr<Stream> stream;
    Clock::SteadyTime drained{};  ///< when its reader had last taken nearly all
  };
  static void closed(evhttp_connection* connection, void* live);
  void pump(Live& live, Clock::SteadyTime now);
  std::list<Live> all_;
};

}  // namespace gpuwarden::serve
