// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/helper.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "gpuwarden/base/child.hpp"
#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/text.hpp"
#include "serve/helper_request.hpp"

namespace gpuwarden::serve {
namespace {

/// Longer than the longest thing that a helper does: a driver that does not answer.
constexpr std::chrono::seconds kHelperPatience(12);

/// The room of one descriptor that goes along with a packet.
union Control {
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
  cmsghdr align;
};

struct Incoming {
  std::string packet;
  UniqueFd connection;
};

/// Nothing at the end of the stream.
std::optional<Incoming> receive(int socket) {
  Incoming incoming;
  incoming.packet.resize(kLongestPacket);
  iovec part{incoming.packet.data(), incoming.packet.size()};
  Control control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t got = -1;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return std::nullopt;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    incoming.connection.reset(fd);
  }
  // What was cut is no request.
  incoming.packet.resize((message.msg_flags & MSG_TRUNC) == 0 ? static_cast<std::size_t>(got) : 0);
  return incoming;
}

bool send_packet(int socket, const std::string& packet, int connection) {
  std::string text = packet;
  iovec part{text.data(), text.size()};
  Control control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (connection >= 0) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &connection, sizeof(connection));
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

/// "17\nrest" as its number and the rest.
struct Numbered {
  std::string_view number;
  std::string_view rest;
};
Numbered numbered(std::string_view packet) {
  const std::size_t end = packet.find('\n');
  if (end == std::string_view::npos) return {packet, {}};
  return {packet.substr(0, end), packet.substr(end + 1)};
}

/// Of root's capabilities those alone that the rights need: to be another user for a signal, and what the driver wants
/// of who sets a power limit; in a container root may lack them. Root's own files stay root's. False where the others
/// cannot be given up.
bool keep_capabilities(const HelperRights& rights) {
  std::uint32_t kept = 0;
  if (rights.signals) kept |= 1U << CAP_SETUID;
  if (rights.set_power_limit) kept |= 1U << CAP_SYS_ADMIN;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> had{};
  if (::syscall(SYS_capget, &header, had.data()) != 0) return false;
  std::array<__user_cap_data_struct, 2> data{};
  data[0].effective = data[0].permitted = kept & had[0].permitted;
  return ::syscall(SYS_capset, &header, data.data()) == 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/// What was done stands in the log of whoever started the server.
void tell(int log, std::string_view packet, const Result<std::string>& answer) {
  const std::string line =
      fmt::format("gpuwarden: root helper: {}: {}\n", printable(fmt::format("{}", fmt::join(split(packet, '\n'), " "))),
                  answer ? "done" : printable(answer.error().message));
  [[maybe_unused]] const auto written = ::write(log, line.data(), line.size());
}

[[noreturn]] void work(int socket, int log, const HelperRights& rights) {
  ::prctl(PR_SET_NAME, "gpuwarden-root");
  ::prctl(PR_SET_DUMPABLE, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // It ends when the server's end of the socket is closed, not before: Ctrl-C is for the server.
  for (const int signal : {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGPIPE}) std::signal(signal, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);
  keep_descriptors({socket, log});
  if (::geteuid() == 0 && !keep_capabilities(rights)) ::_exit(1);
  while (const auto incoming = receive(socket)) {
    const auto [number, request] = numbered(incoming->packet);
    const auto answer = obey(request, incoming->connection.get(), rights);
    tell(log, request, answer);
    if (!send_packet(socket, fmt::format("{}\n{}", printable(number), answer_packet(answer)), -1)) break;
  }
  ::_exit(0);
}

std::unexpected<Error> helper_gone() {
  return fail(ErrorCode::unavailable, "the helper that kept root's rights has ended",
              "start gpuwarden serve anew: its log says why");
}

}  // namespace

Result<std::unique_ptr<Helper>> Helper::start(const HelperRights& rights) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return std::unexpected(error_from_errno(errno, "cannot make a socket for the helper"));
  UniqueFd own(ends[0]);
  const UniqueFd other(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return std::unexpected(error_from_errno(errno, "cannot start the helper"));
  if (pid == 0) {
    // Behind the standard streams, which become /dev/null.
    const int socket = ::fcntl(other.get(), F_DUPFD_CLOEXEC, 3);
    work(socket, ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), rights);
  }
  return std::unique_ptr<Helper>(new Helper(pid, std::move(own)));
}

Helper::~Helper() {
  socket_.reset();
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
}

Result<std::string> Helper::ask(const HelperRequest& request, int connection) {
  const std::scoped_lock lock(mutex_);
  const std::string number = std::to_string(++asked_);
  if (!send_packet(socket_.get(), fmt::format("{}\n{}", number, to_packet(request)), connection)) return helper_gone();
  const auto deadline = system_clock().now() + kHelperPatience;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - system_clock().now());
    pollfd ready{socket_.get(), POLLIN, 0};
    const int polled = left.count() <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(left.count()));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) return fail(ErrorCode::timed_out, "the helper that keeps root's rights does not answer");
    const auto incoming = receive(socket_.get());
    if (!incoming) return helper_gone();
    // An answer that came too late for the one who asked.
    const auto [answered, answer] = numbered(incoming->packet);
    if (answered == number) return parse_answer(answer);
  }
}

Result<Milliwatts> Helper::set_power_limit(const Uuid& gpu, Milliwatts limit) {
  GPUWARDEN_TRY(const std::string answer, ask(PowerLimitRequest{gpu, limit}));
  const auto value = parse_integer(answer);
  if (!value) return fail(ErrorCode::corrupt, "the helper of the server answers what is no power limit");
  return Milliwatts(*value);
}

Result<void> Helper::signal(Pid pid, int signal, int connection) {
  GPUWARDEN_CHECK(ask(SignalRequest{pid, signal}, connection));
  return {};
}

Result<void> Helper::disable(const Uuid& gpu, const std::string& reason, const std::string& by) {
  GPUWARDEN_CHECK(ask(DisableRequest{gpu, reason, by}));
  return {};
}

Result<void> Helper::enable(const Uuid& gpu) {
  GPUWARDEN_CHECK(ask(EnableRequest{gpu}));
  return {};
}

}  // namespace gpuwarden::serve
