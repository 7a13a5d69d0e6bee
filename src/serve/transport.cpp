// SPDX-License-Identifier: Apache-2.0
#include "serve/transport.hpp"

#include <event2/listener.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include "gpuwarden/serve/server.hpp"
#include "serve/bind.hpp"
#include "serve/connections.hpp"
#include "serve/transport_request.hpp"
#include "serve/transport_streams.hpp"
#include "serve/transport_work.hpp"

namespace gpuwarden::serve {
namespace {

constexpr timeval kEverySecond{1, 0};
constexpr timeval kWhileFull{0, 50'000};
constexpr timeval kLastAnswers{0, 500'000};

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions options, UniqueFd socket, TlsContext tls)
      : options_(std::move(options)),
        socket_(std::move(socket)),
        tls_(std::move(tls)),
        connections_(socket_.get(), {.first_request = options_.patience, .exchange = options_.longest_exchange}) {}

  const Address& address() const { return options_.address; }
  std::string url() const { return fmt::format("{}://{}", tls_ ? "https" : "http", to_string(options_.address)); }

  void run(const Sources& sources, const std::stop_token& stop) {
    sources_ = &sources;
    wake_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    open();
    workers_.begin(sources, [this] { wake(); });
    sources.events->on_news([this] { wake(); });
    {
      const std::stop_callback on_stop(stop, [this] {
        stopping_ = true;
        wake();
      });
      event_base_dispatch(base_.get());
    }
    sources.events->on_news({});
    workers_.end();
    streams_.end();
    for (EventPtr* event : {&wake_event_, &tick_event_, &full_event_}) event->reset();
    http_.reset();
    base_.reset();
  }

 private:
  void open() {
    base_.reset(event_base_new());
    http_.reset(evhttp_new(base_.get()));
    evhttp_set_max_headers_size(http_.get(), static_cast<ev_ssize_t>(options_.most_header_bytes));
    evhttp_set_max_body_size(http_.get(), static_cast<ev_ssize_t>(options_.most_body_bytes));
    evhttp_set_timeout(http_.get(), static_cast<int>(options_.patience.count()));
    // All of them, so that those which are not answered are told so in one place.
    evhttp_set_allowed_methods(http_.get(), EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST | EVHTTP_REQ_PUT |
                                                EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS | EVHTTP_REQ_TRACE |
                                                EVHTTP_REQ_PATCH);
    evhttp_set_gencb(http_.get(), [](evhttp_request* request, void* self) { of(self).handle(*request); }, this);
    evhttp_set_bevcb(http_.get(), [](event_base*, void* self) { return of(self).accepted(); }, this);
    bound_ = evhttp_accept_socket_with_handle(http_.get(), ::fcntl(socket_.get(), F_DUPFD_CLOEXEC, 0));
    const auto woken = [](evutil_socket_t, short, void* self) { of(self).woken(); };
    wake_event_.reset(event_new(base_.get(), wake_.get(), EV_READ | EV_PERSIST, woken, this));
    tick_event_.reset(
        event_new(base_.get(), -1, EV_PERSIST, [](evutil_socket_t, short, void* self) { of(self).tick(); }, this));
    full_event_.reset(
        event_new(base_.get(), -1, 0, [](evutil_socket_t, short, void* self) { of(self).count(); }, this));
    event_add(wake_event_.get(), nullptr);
    event_add(tick_event_.get(), &kEverySecond);
  }

  static Impl& of(void* self) { return *static_cast<Impl*>(self); }

  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
  }

  void woken() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(wake_.get(), &count, sizeof(count));
    workers_.send_ready();
    if (stopping_) {
      stop();
    } else {
      streams_.pump(sources_->clock->now());
    }
  }

  void stop() {
    if (bound_ == nullptr) return;
    evhttp_del_accept_socket(http_.get(), std::exchange(bound_, nullptr));
    // The descriptor that was bound is another copy.
    ::shutdown(socket_.get(), SHUT_RDWR);
    streams_.end();
    event_base_loopexit(base_.get(), &kLastAnswers);
  }

  void tick() {
    if (options_.tick) options_.tick();
    streams_.pump(sources_->clock->now());
    count();
  }

  /// A connection was accepted: what reads and writes it. Stops accepting at the limit.
  bufferevent* accepted() {
    if (known_ + ++new_ >= options_.most_connections) count();
    return tls_ ? tls_connection(base_.get(), *tls_) : bufferevent_socket_new(base_.get(), -1, BEV_OPT_CLOSE_ON_FREE);
  }

  void count() {
    known_ = connections_.sweep(sources_->clock->now());
    new_ = 0;
    if (bound_ == nullptr) return;
    evconnlistener* listener = evhttp_bound_socket_get_listener(bound_);
    if (known_ < options_.most_connections) {
      evconnlistener_enable(listener);
    } else {
      evconnlistener_disable(listener);
      event_add(full_event_.get(), &kWhileFull);
    }
  }

  Peer peer_of(int fd) {
    sockaddr_storage name{};
    socklen_t length = sizeof(name);
    Peer peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) return peer;
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(reinterpret_cast<const sockaddr*>(&name), length, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0)
      peer.address = text.data();
    if (!is_loopback(name)) return peer;
    peer.loopback = true;
    peer.user = connections_.user_of(fd);
    peer.descriptor = fd;
    return peer;
  }

  void handle(evhttp_request& raw) {
    const int fd = descriptor_of(raw);
    connections_.note_request(fd, sources_->clock->now());
    auto request = read_request(raw, peer_of(fd));
    if (request && may_wait(*request)) return hand_over(raw, std::move(*request));
    Response response = request ? answer(*sources_, *request) : error_answer(request.error());
    const bool head = evhttp_request_get_command(&raw) == EVHTTP_REQ_HEAD;
    if (!response.stream || head) return send_whole(raw, std::move(response));
    connections_.note_stream(fd);
    streams_.begin(raw, std::move(response), sources_->clock->now());
  }

  void hand_over(evhttp_request& raw, Request request) {
    if (workers_.take(raw, std::move(request))) return;
    Response busy = error_answer({ErrorCode::unavailable, "the server is busy with other such requests", "try again"});
    busy.headers.emplace_back("Retry-After", "1");
    send_whole(raw, std::move(busy));
  }

  ServerOptions options_;
  UniqueFd socket_;
  TlsContext tls_;
  Connections connections_;
  const Sources* sources_ = nullptr;
  std::atomic<bool> stopping_ = false;
  UniqueFd wake_;
  EventBase base_;
  EventHttp http_;
  evhttp_bound_socket* bound_ = nullptr;
  EventPtr wake_event_;
  EventPtr tick_event_;
  EventPtr full_event_;
  Streams streams_;
  Workers workers_;
  std::size_t known_ = 0;  ///< connections when they were last counted
  std::size_t new_ = 0;    ///< accepted since
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::listen(ServerOptions options) {
  TlsContext tls;
  if (!options.certificate.empty()) {
    GPUWARDEN_TRY(tls, make_tls(options.certificate, options.key));
  }
  GPUWARDEN_TRY(UniqueFd socket, bind_and_listen(options.address));
  return std::unique_ptr<Server>(
      new Server(std::make_unique<Impl>(std::move(options), std::move(socket), std::move(tls))));
}

const Address& Server::address() const { return impl_->address(); }
std::string Server::url() const { return impl_->url(); }
void Server::run(const Sources& sources, const std::stop_token& stop) { impl_->run(sources, stop); }

}  // namespace gpuwarden::serve
