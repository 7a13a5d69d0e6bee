// SPDX-License-Identifier: Apache-2.0
// What the files that include libevent share.
#pragma once

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <openssl/ssl.h>

#include <filesystem>
#include <memory>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::serve {

template <auto Free>
struct FreedBy {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using EventBase = std::unique_ptr<event_base, FreedBy<event_base_free>>;
using EventHttp = std::unique_ptr<evhttp, FreedBy<evhttp_free>>;
using EventPtr = std::unique_ptr<event, FreedBy<event_free>>;
using Buffer = std::unique_ptr<evbuffer, FreedBy<evbuffer_free>>;
using TlsContext = std::unique_ptr<SSL_CTX, FreedBy<SSL_CTX_free>>;

/// TLS 1.2 and later with this certificate (and its chain) and key. Fails with invalid_argument naming the file.
Result<TlsContext> make_tls(const std::filesystem::path& certificate, const std::filesystem::path& key);
/// What reads and writes a connection that speaks TLS; nullptr where there is no memory for it.
bufferevent* tls_connection(event_base* base, SSL_CTX& context);

}  // namespace gpuwarden::serve
