// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/net/http.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>

#include "gpuwarden/base/text.hpp"
#include "net/libcurl.hpp"
#include "net/url.hpp"

namespace gpuwarden::net {
namespace {

constexpr long kMostRedirects = 5;
/// Between looks at the transfers where nothing happens: a stop wakes the wait anyway.
constexpr int kPollMilliseconds = 50;

/// One request under way.
class Transfer {
 public:
  Transfer(const LibCurl& curl, const HttpRequest& request, std::size_t number)
      : curl_(curl), request_(request), number_(number), handle_(curl.easy_init()) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() {
    if (handle_ != nullptr) curl_.easy_cleanup(handle_);
    curl_.slist_free_all(headers_);
  }

  CURL* handle() const { return handle_; }
  std::size_t number() const { return number_; }

  Result<void> prepare() {
    GPUWARDEN_CHECK(check_url(request_.url));
    if (handle_ == nullptr) return fail(ErrorCode::failed, "libcurl cannot make a request");
    set(CURLOPT_URL, request_.url.c_str());
    // Threads of other programs' signals are not to be disturbed, and a host name that is not found is not waited for.
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_QUICK_EXIT, 1L);
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(std::clamp<std::int64_t>(request_.timeout.count(), 1, 86'400'000)));
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_USERAGENT, "gpuwarden");
    set(CURLOPT_ERRORBUFFER, words_.data());
    set(CURLOPT_WRITEFUNCTION, &Transfer::write);
    set(CURLOPT_WRITEDATA, static_cast<void*>(this));
    // What listens on this machine is never behind a proxy.
    if (is_loopback(request_.url)) set(CURLOPT_NOPROXY, "*");
    allow_redirects();
    if (request_.body) {
      set(CURLOPT_POST, 1L);
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body->size()));
      set(CURLOPT_POSTFIELDS, request_.body->c_str());
    }
    return set_headers();
  }

  Result<HttpAnswer> finish(CURLcode code) {
    if (code != CURLE_OK) return std::unexpected(error_of(code));
    long status = 0;
    const char* type = nullptr;
    curl_.easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
    curl_.easy_getinfo(handle_, CURLINFO_CONTENT_TYPE, &type);
    answer_.status = static_cast<int>(status);
    answer_.content_type = type != nullptr ? printable(type) : "";
    return std::move(answer_);
  }

 private:
  template <class T>
  void set(CURLoption option, T value) {
    curl_.easy_setopt(handle_, option, value);
  }

  /// A plain GET follows a redirection, but never from https to http. Headers may hold a token and a body may be
  /// secret: they go where they were sent.
  void allow_redirects() {
    if (!request_.headers.empty() || request_.body) return;
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, kMostRedirects);
    const bool secure = to_lower(request_.url.substr(0, 8)) == "https://";
    set(CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
  }

  Result<void> set_headers() {
    for (const auto& [name, value] : request_.headers) {
      const std::string line = name + ": " + value;
      if (name.empty() || line.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos)
        return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no HTTP header", printable(name)));
      headers_ = curl_.slist_append(headers_, line.c_str());
    }
    // Without it a body of more than 1 MB waits a second for the server's consent.
    if (request_.body) headers_ = curl_.slist_append(headers_, "Expect:");
    if (headers_ != nullptr) set(CURLOPT_HTTPHEADER, headers_);
    return {};
  }

  static std::size_t write(char* data, std::size_t, std::size_t size, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    std::string& body = transfer.answer_.body;
    transfer.too_large_ = size > transfer.request_.most_bytes - std::min(transfer.request_.most_bytes, body.size());
    if (transfer.too_large_) return 0;
    body.append(data, size);
    return size;
  }

  Error error_of(CURLcode code) const {
    const std::string host = printable(host_of(request_.url));
    if (too_large_)
      return {ErrorCode::failed,
              fmt::format("the answer of {} is larger than {}", host, format_size(Bytes(request_.most_bytes))), ""};
    if (code == CURLE_OPERATION_TIMEDOUT)
      return {ErrorCode::timed_out, fmt::format("{} did not answer within {}", host, format_duration(request_.timeout)),
              ""};
    const std::string words =
        printable(words_.front() != '\0' ? std::string_view(words_.data()) : curl_.easy_strerror(code));
    const bool bad_url = code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
    return {bad_url ? ErrorCode::invalid_argument : ErrorCode::unavailable,
            fmt::format("{} cannot be asked: {}", host, words), ""};
  }

  const LibCurl& curl_;
  const HttpRequest& request_;
  std::size_t number_;
  CURL* handle_;
  curl_slist* headers_ = nullptr;
  HttpAnswer answer_;
  std::array<char, CURL_ERROR_SIZE> words_{};
  bool too_large_ = false;
};

/// Many requests at the same time, in the calling thread.
class Transfers {
 public:
  Transfers(const LibCurl& curl, std::span<const HttpRequest> requests, unsigned at_once)
      : curl_(curl), requests_(requests), at_once_(std::max(at_once, 1U)), multi_(curl.multi_init()) {
    results_.resize(requests.size());
  }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  ~Transfers() {
    for (const auto& transfer : running_) curl_.multi_remove_handle(multi_, transfer->handle());
    running_.clear();
    if (multi_ != nullptr) curl_.multi_cleanup(multi_);
  }

  std::vector<Result<HttpAnswer>> run(const std::stop_token& stop) {
    const std::stop_callback wake(stop, [this] { curl_.multi_wakeup(multi_); });
    begin_more();
    while (!running_.empty() && !stop.stop_requested()) {
      int active = 0;
      const bool fine = curl_.multi_perform(multi_, &active) == CURLM_OK;
      take_finished();
      begin_more();
      if (!fine) break;
      if (!running_.empty()) curl_.multi_poll(multi_, nullptr, 0, kPollMilliseconds, nullptr);
    }
    std::vector<Result<HttpAnswer>> all;
    const bool stopped = stop.stop_requested();
    for (auto& result : results_) {
      if (result) {
        all.push_back(std::move(*result));
      } else if (stopped) {
        all.emplace_back(fail(ErrorCode::interrupted, "stopped before an answer came"));
      } else {
        all.emplace_back(fail(ErrorCode::failed, "libcurl gave up"));
      }
    }
    return all;
  }

 private:
  void begin_more() {
    while (next_ < requests_.size() && running_.size() < at_once_) {
      auto transfer = std::make_unique<Transfer>(curl_, requests_[next_], next_);
      if (auto ready = transfer->prepare(); !ready) {
        results_[next_] = std::unexpected(ready.error());
      } else if (multi_ == nullptr || curl_.multi_add_handle(multi_, transfer->handle()) != CURLM_OK) {
        results_[next_] = fail(ErrorCode::failed, "libcurl cannot make a request");
      } else {
        running_.push_back(std::move(transfer));
      }
      ++next_;
    }
  }

  void take_finished() {
    int left = 0;
    while (const CURLMsg* message = curl_.multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      CURL* const handle = message->easy_handle;
      const CURLcode code = message->data.result;
      const auto at = std::ranges::find(running_, handle, [](const auto& transfer) { return transfer->handle(); });
      if (at == running_.end()) continue;
      curl_.multi_remove_handle(multi_, handle);
      results_[(*at)->number()] = (*at)->finish(code);
      running_.erase(at);
    }
  }

  const LibCurl& curl_;
  std::span<const HttpRequest> requests_;
  std::size_t at_once_;
  CURLM* multi_;
  std::size_t next_ = 0;
  std::deque<std::unique_ptr<Transfer>> running_;
  std::vector<std::optional<Result<HttpAnswer>>> results_;
};

}  // namespace

std::vector<Result<HttpAnswer>> ask_all(std::span<const HttpRequest> requests, unsigned at_once,
                                        const std::stop_token& stop) {
  const auto curl = libcurl();
  if (!curl) return std::vector<Result<HttpAnswer>>(requests.size(), std::unexpected(curl.error()));
  return Transfers(**curl, requests, at_once).run(stop);
}

Result<HttpAnswer> ask(const HttpRequest& request, const std::stop_token& stop) {
  return std::move(ask_all({&request, 1}, 1, stop).front());
}

Result<void> post_json(const std::string& url, const std::string& body, const std::stop_token& stop) {
  const HttpRequest request{.url = url, .headers = {{"Content-Type", "application/json"}}, .body = body};
  GPUWARDEN_TRY(const HttpAnswer answer, ask(request, stop));
  if (answer.status >= 200 && answer.status < 300) return {};
  const bool later = answer.status >= 500 || answer.status == 429 || answer.status == 408;
  return fail(later ? ErrorCode::unavailable : ErrorCode::failed,
              fmt::format("{} answered with status {}", printable(host_of(url)), answer.status));
}

}  // namespace gpuwarden::net
