// SPDX-License-Identifier: Apache-2.0
#include "serve/transport_streams.hpp"

#include <sys/socket.h>

#include <string>

#include "serve/transport_request.hpp"

namespace gpuwarden::serve {
namespace {

/// What may wait for a slow reader; beyond it the stream's own queue fills, which drops.
constexpr std::size_t kMostUnsent = std::size_t{256} << 10U;
/// A reader who takes nothing for so long is let go.
constexpr std::chrono::seconds kMostPatience(30);

bufferevent* connection_of(evhttp_request& request) {
  evhttp_connection* connection = evhttp_request_get_connection(&request);
  return connection == nullptr ? nullptr : evhttp_connection_get_bufferevent(connection);
}

}  // namespace

void Streams::begin(evhttp_request& request, Response response, Clock::SteadyTime now) {
  evhttp_connection* connection = evhttp_request_get_connection(&request);
  write_head(request, response);
  Live& live =
      all_.emplace_back(Live{.owner = this, .request = &request, .stream = std::move(response.stream), .drained = now});
  // Its reader says nothing more: only what cannot be sent ends it.
  bufferevent_set_timeouts(evhttp_connection_get_bufferevent(connection), nullptr, nullptr);
  evhttp_connection_set_closecb(connection, closed, &live);
  evhttp_send_reply_start(&request, response.status, "OK");
  pump(live, now);
}

void Streams::closed(evhttp_connection* /*connection*/, void* live) {
  auto* gone = static_cast<Live*>(live);
  // A request that lost its connection is nobody's any more but ours; the others libevent frees.
  if (evhttp_request_get_connection(gone->request) == nullptr) evhttp_request_free(gone->request);
  gone->owner->all_.remove_if([&](const Live& other) { return &other == gone; });
}

void Streams::pump(Live& live, Clock::SteadyTime now) {
  bufferevent* connection = connection_of(*live.request);
  if (connection == nullptr) return;
  if (evbuffer_get_length(bufferevent_get_output(connection)) > kMostUnsent) {
    // libevent sees the end of it, and calls closed().
    if (now - live.drained > kMostPatience) ::shutdown(bufferevent_getfd(connection), SHUT_RDWR);
    return;
  }
  live.drained = now;
  const std::string text = live.stream->take(now);
  if (text.empty()) return;
  const Buffer buffer(evbuffer_new());
  evbuffer_add(buffer.get(), text.data(), text.size());
  evhttp_send_reply_chunk(live.request, buffer.get());
}

void Streams::pump(Clock::SteadyTime now) {
  for (auto live = all_.begin(); live != all_.end();) pump(*live++, now);
}

void Streams::end() {
  for (const Live& live : all_) {
    if (evhttp_connection* connection = evhttp_request_get_connection(live.request))
      evhttp_connection_set_closecb(connection, nullptr, nullptr);
    evhttp_send_reply_end(live.request);
  }
  all_.clear();
}

}  // namespace gpuwarden::serve
