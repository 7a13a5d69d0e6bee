// SPDX-License-Identifier: Apache-2.0
// Requests and answers between libevent's form and ours.
#pragma once

#include "gpuwarden/serve/http.hpp"
#include "serve/transport.hpp"

namespace gpuwarden::serve {

/// The connection's socket; -1 where it is gone.
int descriptor_of(evhttp_request& request);
/// Fails with invalid_argument for what no request should be.
Result<Request> read_request(evhttp_request& request, const Peer& peer);
/// Type and headers, before the body or a stream.
void write_head(evhttp_request& request, const Response& response);
/// The whole answer; the request is libevent's from then on.
void send_whole(evhttp_request& request, Response response);

}  // namespace gpuwarden::serve
