// SPDX-License-Identifier: Apache-2.0
// The timeline's page in a real browser, where Chromium is found.
#include <array>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/memtrace/read.hpp"
#include "gpuwarden/memtrace/record.hpp"
#include "gpuwarden/memtrace/timeline.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::memtrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Works the page as a reader would, and writes down what it then says.
constexpr std::string_view kReader = R"html(<script>
window.addEventListener('error', (event) => { document.body.append('ERR' + 'OR ' + event.message); });
addEventListener('load', () => {
  const said = [], tip = document.getElementById('tip');
  const point = (id, type, x, y, more) => {
    const canvas = document.getElementById(id), at = canvas.getBoundingClientRect();
    const kind = type === 'wheel' ? WheelEvent : PointerEvent;
    canvas.dispatchEvent(new kind(type, { clientX: at.left + x * at.width, clientY: at.top + y * at.height,
      bubbles: true, cancelable: true, ...more }));
  };
  const choose = (id, value) => {
    document.getElementById(id).value = value;
    document.getElementById(id).dispatchEvent(new Event('change'));
  };
  point('map', 'pointermove', 0.5, 0.5);
  said.push('MAP ' + tip.textContent);
  point('curve', 'pointermove', 0.5, 0.5);
  said.push('CURVE ' + tip.textContent);
  for (let i = 0; i < 5; ++i) point('map', 'wheel', 0.5, 0.5, { deltaY: -100 });
  point('map', 'pointermove', 0.5, 0.5);
  said.push('CLOSER ' + tip.textContent);
  choose('axis', 'time');
  choose('colour', 'stream');
  said.push('KEY ' + document.getElementById('key').textContent);
  const pen = document.getElementById('map').getContext('2d');
  const { data } = pen.getImageData(0, 0, pen.canvas.width, pen.canvas.height);
  said.push('DRAWN ' + data.some((value) => value !== 0));
  said.push('WIDE ' + (document.documentElement.scrollWidth > innerWidth));
  document.body.append(said.join('|'));
});
</script>)html";

std::string page_of_a_large_block() {
  const auto trace =
      read_trace("op,id,size,stream\na,1,90000000,0\na,2,4000,7\nf,2,4000,7\nf,1,90000000,0\n", "x").value();
  const auto script = make_script(trace, std::array{0U});
  return timeline_html(record(trace, script, {}).value(), {"a page", {"/a/long/path" + std::string(300, 'x')}});
}

TEST(TimelineInABrowser, DrawsAnswersAndFitsANarrowWindow) {
  const gpuwarden::testing::TempDir folder;
  const auto file = folder / "page.html";
  gpuwarden::testing::put(file, page_of_a_large_block() + std::string(kReader));
  const auto done = testing::run_patiently(
      {.argv = {"chromium", "--headless", "--no-sandbox", "--disable-gpu", "--window-size=520,900",
                "--user-data-dir=" + (folder / "profile").string(), "--dump-dom", "file://" + file.string()}});
  if (!done || done->exit_code == 127) GTEST_SKIP() << "there is no Chromium";
  if (done->timed_out || done->exit_code != 0) GTEST_SKIP() << "Chromium does not run here: " << done->standard_error;
  const std::string& page = done->standard_output;
  EXPECT_THAT(page, Not(HasSubstr("ERROR ")));
  EXPECT_THAT(page, HasSubstr("MAP Block 0: 85.8 MiB (90,000,000 bytes), stream 0, allocated at operation 0"));
  EXPECT_THAT(page, HasSubstr("|CURVE operation "));
  EXPECT_THAT(page, HasSubstr("|CLOSER Block 0: "));
  EXPECT_THAT(page, HasSubstr("|KEY stream 0stream 7mapped, not live|DRAWN true|WIDE false"));
}

}  // namespace
}  // namespace gpuwarden::memtrace
