// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/curses_screen.hpp"

// Functions, not macros that take the names of others.
#define NCURSES_NOMACROS 1
#include <curses.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "gpuwarden/base/unique_fd.hpp"
#include "view/palette.hpp"

namespace gpuwarden::view {
namespace {

constexpr std::array kCrashes{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/// What a crash needs to leave the terminal as it was; written before a handler can run.
struct Rescue {
  termios before{};
  std::array<struct sigaction, kCrashes.size()> actions{};
  std::atomic<bool> armed = false;
};
Rescue g_rescue;

extern "C" void leave_terminal_after_crash(int signal) {
  if (g_rescue.armed.exchange(false)) {
    // Main screen, cursor, plain colours, no mouse: what terminals since xterm understand.
    constexpr std::string_view kRestore = "\x1b[?1000l\x1b[?1002l\x1b[?1006l\x1b[?1049l\x1b[?25h\x1b[0m\r\n";
    [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, kRestore.data(), kRestore.size());
    ::tcsetattr(STDIN_FILENO, TCSANOW, &g_rescue.before);
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void arm_rescue() {
  if (::tcgetattr(STDIN_FILENO, &g_rescue.before) != 0) return;
  g_rescue.armed = true;
  struct sigaction action{};
  action.sa_handler = leave_terminal_after_crash;
  for (std::size_t i = 0; i < kCrashes.size(); ++i) ::sigaction(kCrashes.at(i), &action, &g_rescue.actions.at(i));
}

void disarm_rescue() {
  if (!g_rescue.armed.exchange(false)) return;
  for (std::size_t i = 0; i < kCrashes.size(); ++i) ::sigaction(kCrashes.at(i), &g_rescue.actions.at(i), nullptr);
}

/// Ctrl-Z. The library of the terminal ignores it while it draws, and what comes then is lost: it is noted here and
/// obeyed between two frames.
struct Suspension {
  std::atomic<bool> wanted = false;
  std::atomic<int> wake = -1;
  struct sigaction before{};
};
Suspension g_suspension;

/// Ends a read() that waits; safe in a signal handler.
void ring(int event) {
  constexpr std::uint64_t kOne = 1;
  [[maybe_unused]] const ssize_t written = ::write(event, &kOne, sizeof kOne);
}

extern "C" void note_suspension(int /*signal*/) {
  const int error = errno;
  g_suspension.wanted = true;
  ring(g_suspension.wake);
  errno = error;
}

/// Before the terminal is opened: its library leaves a signal alone that has a handler. One that was ignored stays so.
void watch_suspension(int wake) {
  g_suspension.wake = wake;
  g_suspension.wanted = false;
  ::sigaction(SIGTSTP, nullptr, &g_suspension.before);
  if (g_suspension.before.sa_handler == SIG_IGN) return;
  struct sigaction action{};
  action.sa_handler = note_suspension;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTSTP, &action, nullptr);
}

void unwatch_suspension() {
  ::sigaction(SIGTSTP, &g_suspension.before, nullptr);
  g_suspension.wake = -1;
}

/// Gives the terminal back, stops the process, and takes the terminal again when it goes on in the foreground.
void suspend() {
  ::endwin();
  struct sigaction noting{};
  ::sigaction(SIGTSTP, &g_suspension.before, &noting);
  ::raise(SIGTSTP);
  ::sigaction(SIGTSTP, &noting, nullptr);
  ::flushinp();
  ::clearok(stdscr, TRUE);
  ::wrefresh(stdscr);
}

/// For the process: one that is raised would be this thread's, and the one that waits for signals would not see it.
int hangup_signal() {
  struct sigaction now{};
  ::sigaction(SIGHUP, nullptr, &now);
  return now.sa_handler == SIG_IGN ? SIGTERM : SIGHUP;
}

struct CursesKey {
  int code;
  KeyCode key;
};
constexpr auto kCursesKeys = std::to_array<CursesKey>({{KEY_UP, KeyCode::up},
                                                       {KEY_DOWN, KeyCode::down},
                                                       {KEY_LEFT, KeyCode::left},
                                                       {KEY_RIGHT, KeyCode::right},
                                                       {KEY_PPAGE, KeyCode::page_up},
                                                       {KEY_NPAGE, KeyCode::page_down},
                                                       {KEY_HOME, KeyCode::home},
                                                       {KEY_END, KeyCode::end},
                                                       {KEY_DC, KeyCode::remove},
                                                       {KEY_BTAB, KeyCode::back_tab},
                                                       {KEY_ENTER, KeyCode::enter},
                                                       {KEY_BACKSPACE, KeyCode::backspace},
                                                       {KEY_RESIZE, KeyCode::resize}});

Key mouse_key() {
  MEVENT event{};
  if (::getmouse(&event) != OK) return {};
  const Point at{event.x, event.y};
  if ((event.bstate & BUTTON4_PRESSED) != 0) return {KeyCode::wheel_up, at};
  if ((event.bstate & BUTTON5_PRESSED) != 0) return {KeyCode::wheel_down, at};
  if ((event.bstate & (BUTTON1_PRESSED | BUTTON1_CLICKED)) != 0) return {KeyCode::click, at};
  return {};
}

Key function_key(wint_t code) {
  for (const CursesKey& row : kCursesKeys)
    if (code == static_cast<wint_t>(row.code)) return {row.key};
  if (code == KEY_MOUSE) return mouse_key();
  if (code >= KEY_F(1) && code <= KEY_F(12))
    return {static_cast<KeyCode>(static_cast<char32_t>(KeyCode::f1) + (code - KEY_F(1)))};
  return {};
}

Key character_key(wint_t code) {
  if (code == '\r') return {KeyCode::enter};
  return {static_cast<KeyCode>(code)};
}

/// Keys as terminals send them that did not change to the mode for applications; and what some tell of their focus,
/// which means nothing here but begins like a key.
void know_other_sequences() {
  struct Sequence {
    const char* text;
    int code;
  };
  constexpr auto kSequences = std::to_array<Sequence>({{"\033[A", KEY_UP},
                                                       {"\033[B", KEY_DOWN},
                                                       {"\033[C", KEY_RIGHT},
                                                       {"\033[D", KEY_LEFT},
                                                       {"\033[H", KEY_HOME},
                                                       {"\033[F", KEY_END},
                                                       {"\033[I", KEY_REFRESH},
                                                       {"\033[O", KEY_REFRESH}});
  for (const Sequence& one : kSequences) ::define_key(one.text, one.code);
}

class CursesScreen final : public Screen {
 public:
  CursesScreen(SCREEN* terminal, UniqueFd wake, bool colours) : terminal_(terminal), wake_(std::move(wake)) {
    ::cbreak();
    ::noecho();
    ::nonl();
    ::keypad(stdscr, TRUE);
    know_other_sequences();
    ::nodelay(stdscr, TRUE);
    ::set_escdelay(25);
    ::curs_set(0);
    ::mouseinterval(0);
    if (colours && ::has_colors()) choose_colours();
  }
  ~CursesScreen() override {
    ::mousemask(0, nullptr);
    ::endwin();
    ::delscreen(terminal_);
    unwatch_suspension();
    disarm_rescue();
  }

  Extent extent() const override { return {getmaxx(stdscr), getmaxy(stdscr)}; }

  std::optional<Key> read(std::chrono::milliseconds wait) override {
    if (g_suspension.wanted.exchange(false)) suspend();
    if (const auto key = take_key()) return key;
    if (wait.count() <= 0) return std::nullopt;
    std::array<pollfd, 2> sources{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
    const int ready = ::poll(sources.data(), sources.size(), static_cast<int>(wait.count()));
    std::uint64_t count = 0;
    if (ready > 0 && sources[1].revents != 0) [[maybe_unused]]
      const ssize_t got = ::read(wake_.get(), &count, sizeof count);
    // A terminal that is gone answers at once and for ever: that ends the program, whatever SIGHUP does.
    if (ready > 0 && (sources[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) ::kill(::getpid(), hangup_signal());
    return take_key();
  }

  void show(const Canvas& canvas) override {
    if (canvas.extent() != shown_.extent()) {
      ::werase(stdscr);
      shown_ = Canvas(canvas.extent());
    }
    for (int y = 0; y < canvas.extent().height; ++y) show_row(canvas, y);
    shown_ = canvas;
    ::wrefresh(stdscr);
  }

  void set_mouse(bool on) override {
    ::mousemask(on ? BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED | BUTTON5_PRESSED : 0, nullptr);
  }
  void forget() override { ::clearok(stdscr, TRUE); }
  void wake() override { ring(wake_.get()); }

 private:
  void choose_colours() {
    ::start_color();
    ::use_default_colors();
    many_ = COLORS >= 256;
    for (std::size_t i = 0; i < kLooks.size(); ++i) {
      const Look& look = kLooks.at(i);
      ::init_pair(static_cast<short>(i + 1), many_ ? look.many : look.eight, -1);
    }
    colours_ = true;
  }

  static std::optional<Key> take_key() {
    wint_t code = 0;
    const int kind = ::wget_wch(stdscr, &code);
    if (kind == ERR) return std::nullopt;
    const Key key = kind == KEY_CODE_YES ? function_key(code) : character_key(code);
    return key;
  }

  attr_t attributes_of(const Cell& cell) const {
    const Look& look = look_of(cell.tone);
    attr_t attributes = A_NORMAL;
    if (look.bold) attributes |= A_BOLD;
    if (look.dim && !(many_ && colours_)) attributes |= A_DIM;
    if (cell.inverse) attributes |= A_REVERSE;
    return attributes;
  }

  /// Writes the stretches of a row that differ, each in one look.
  void show_row(const Canvas& canvas, int y) const {
    for (int x = 0; x < canvas.extent().width; ++x) {
      const Cell& cell = canvas.at({x, y});
      if (cell == shown_.at({x, y}) || cell.glyph == 0) continue;
      const std::array<wchar_t, 2> text{static_cast<wchar_t>(cell.glyph), L'\0'};
      cchar_t packed{};
      const short pair = colours_ ? static_cast<short>(static_cast<int>(cell.tone) + 1) : short{0};
      ::setcchar(&packed, text.data(), attributes_of(cell), pair, nullptr);
      ::mvwadd_wch(stdscr, y, x, &packed);
    }
  }

  SCREEN* terminal_;
  UniqueFd wake_;
  Canvas shown_{Extent{}};
  bool colours_ = false;
  bool many_ = false;
};

/// What a paper terminal or a pipe ("dumb") cannot.
bool moves_its_cursor() {
  const char* sequence = ::tigetstr("cup");
  // NOLINTNEXTLINE(performance-no-int-to-ptr): how terminfo says that it knows no such thing
  return sequence != nullptr && sequence != reinterpret_cast<const char*>(-1);
}

}  // namespace

Glyphs glyphs_of_locale() {
  ::setlocale(LC_CTYPE, "");
  if (std::string_view(::nl_langinfo(CODESET)) != "UTF-8") return Glyphs::ascii;
  constexpr wchar_t kAllDots = 0x28FF;
  return ::wcwidth(kAllDots) == 1 ? Glyphs::braille : Glyphs::block;
}

Result<std::unique_ptr<Screen>> open_curses_screen(bool colours) {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1)
    return fail(ErrorCode::unavailable, "standard input and output are not a terminal", "--once prints one frame");
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  arm_rescue();
  watch_suspension(wake.get());
  SCREEN* terminal = ::newterm(nullptr, stdout, stdin);
  if (terminal == nullptr) {
    unwatch_suspension();
    disarm_rescue();
    const char* kind = std::getenv("TERM");
    return fail(ErrorCode::unavailable, fmt::format("unknown terminal type '{}' (TERM)", kind == nullptr ? "" : kind),
                "for example TERM=xterm-256color; --once prints one frame");
  }
  if (!moves_its_cursor()) {
    ::endwin();
    ::delscreen(terminal);
    unwatch_suspension();
    disarm_rescue();
    const char* kind = std::getenv("TERM");
    return fail(ErrorCode::unavailable,
                fmt::format("a terminal of type '{}' (TERM) cannot move its cursor", kind == nullptr ? "" : kind),
                "for example TERM=xterm-256color; --once prints one frame");
  }
  return std::make_unique<CursesScreen>(terminal, std::move(wake), colours);
}

}  // namespace gpuwarden::view
