// SPDX-License-Identifier: Apache-2.0
#include <event2/bufferevent_ssl.h>
#include <fmt/format.h>
#include <openssl/err.h>

#include <array>

#include "gpuwarden/base/text.hpp"
#include "serve/transport.hpp"

namespace gpuwarden::serve {
namespace {

std::unexpected<Error> tls_failure(std::string_view what, const std::filesystem::path& file) {
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
  ERR_clear_error();
  return fail(ErrorCode::invalid_argument,
              fmt::format("cannot use {} '{}': {}", what, printable(file.string()), reason.data()),
              "both are PEM files; the certificate's chain follows it in the same file");
}

}  // namespace

Result<TlsContext> make_tls(const std::filesystem::path& certificate, const std::filesystem::path& key) {
  TlsContext context(SSL_CTX_new(TLS_server_method()));
  if (!context) return tls_failure("TLS with", certificate);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  if (SSL_CTX_use_certificate_chain_file(context.get(), certificate.c_str()) != 1)
    return tls_failure("the certificate", certificate);
  if (SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1)
    return tls_failure("the key", key);
  if (SSL_CTX_check_private_key(context.get()) != 1)
    return tls_failure("the key, which is not the certificate's,", key);
  return context;
}

bufferevent* tls_connection(event_base* base, SSL_CTX& context) {
  SSL* tls = SSL_new(&context);
  if (tls == nullptr) return nullptr;
  bufferevent* connection =
      bufferevent_openssl_socket_new(base, -1, tls, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
  // Clients that close without saying so are many, and lose nothing: every answer has its length.
  if (connection != nullptr) bufferevent_openssl_set_allow_dirty_shutdown(connection, 1);
  return connection;
}

}  // namespace gpuwarden::serve
