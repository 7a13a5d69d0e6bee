// SPDX-License-Identifier: Apache-2.0
// Requests and answers between libevent's form and ours.
#include "serve/transport_request.hpp"

#include <event2/keyvalq_struct.h>
#include <sys/socket.h>

#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::serve {
namespace {

Method method_of(evhttp_cmd_type command) {
  switch (command) {
    case EVHTTP_REQ_GET:
    case EVHTTP_REQ_HEAD:
      return Method::get;
    case EVHTTP_REQ_POST:
      return Method::post;
    default:
      return Method::other;
  }
}

/// The headers by their names in lower case. Fails where one that must be single is there twice.
Result<Fields> headers_of(evhttp_request& request) {
  Fields headers;
  bool host = false;
  const evkeyvalq* all = evhttp_request_get_input_headers(&request);
  for (const evkeyval* header = all->tqh_first; header != nullptr; header = header->next.tqe_next) {
    std::string name = to_lower(header->key);
    if (name == "host" && std::exchange(host, true))
      return fail(ErrorCode::invalid_argument, "the request has two Host headers");
    headers.emplace_back(std::move(name), header->value);
  }
  return headers;
}

void free_text(const void* /*data*/, std::size_t /*length*/, void* text) { delete static_cast<std::string*>(text); }

}  // namespace

int descriptor_of(evhttp_request& request) {
  evhttp_connection* connection = evhttp_request_get_connection(&request);
  return connection == nullptr ? -1 : bufferevent_getfd(evhttp_connection_get_bufferevent(connection));
}

Result<Request> read_request(evhttp_request& request, const Peer& peer) {
  Request result;
  result.method = method_of(evhttp_request_get_command(&request));
  result.peer = peer;
  const char* target = evhttp_request_get_uri(&request);
  GPUWARDEN_TRY(Target parsed, parse_target(target == nullptr ? "" : target));
  result.path = std::move(parsed.path);
  result.query = std::move(parsed.query);
  GPUWARDEN_TRY(result.headers, headers_of(request));
  evbuffer* body = evhttp_request_get_input_buffer(&request);
  result.body.resize(evbuffer_get_length(body));
  evbuffer_remove(body, result.body.data(), result.body.size());
  return result;
}

void write_head(evhttp_request& request, const Response& response) {
  evkeyvalq* headers = evhttp_request_get_output_headers(&request);
  evhttp_add_header(headers, "Content-Type", response.type.c_str());
  for (const auto& [name, value] : response.headers) evhttp_add_header(headers, name.c_str(), value.c_str());
}

void send_whole(evhttp_request& request, Response response) {
  write_head(request, response);
  const int status = response.status;
  const Buffer buffer(evbuffer_new());
  if (evhttp_request_get_command(&request) == EVHTTP_REQ_HEAD) {
    evhttp_add_header(evhttp_request_get_output_headers(&request), "Content-Length",
                      std::to_string(response.body.size()).c_str());
  } else if (!response.body.empty()) {
    auto text = std::make_unique<std::string>(std::move(response.body));
    if (evbuffer_add_reference(buffer.get(), text->data(), text->size(), free_text, text.get()) == 0) [[maybe_unused]]
      const auto* const owned_by_buffer = text.release();
  }
  evhttp_send_reply(&request, status, std::string(reason_of(status)).c_str(), buffer.get());
}

}  // namespace gpuwarden::serve
