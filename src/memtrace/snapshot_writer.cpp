// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/memtrace/snapshot.hpp"

namespace gpuwarden::memtrace {
namespace {

/// Nested lists and dictionaries in some notation. Every key is a plain word.
class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;

  virtual void begin_list() = 0;
  virtual void end_list() = 0;
  virtual void begin_dictionary() = 0;
  virtual void end_dictionary() = 0;
  virtual void key(std::string_view word) = 0;
  virtual void number(std::uint64_t value) = 0;
  virtual void word(std::string_view text) = 0;
  virtual void flag(bool value) = 0;
  virtual std::string finish() = 0;

  void pair(std::string_view name, std::uint64_t value) { key(name), number(value); }
  void pair(std::string_view name, std::string_view text) { key(name), word(text); }
  void empty_list(std::string_view name) { key(name), begin_list(), end_list(); }
};

class JsonSink final : public Sink {
 public:
  void begin_list() override { open('['); }
  void end_list() override { close(']'); }
  void begin_dictionary() override { open('{'); }
  void end_dictionary() override { close('}'); }
  void key(std::string_view word) override {
    separate();
    fmt::format_to(std::back_inserter(text_), "\"{}\":", word);
    fresh_ = true;
  }
  void number(std::uint64_t value) override {
    separate();
    fmt::format_to(std::back_inserter(text_), "{}", value);
  }
  void word(std::string_view text) override {
    separate();
    fmt::format_to(std::back_inserter(text_), "\"{}\"", text);
  }
  void flag(bool value) override {
    separate();
    text_ += value ? "true" : "false";
  }
  std::string finish() override { return std::move(text_) + "\n"; }

 private:
  void separate() {
    if (!fresh_) text_ += ',';
    fresh_ = false;
  }
  void open(char bracket) {
    separate();
    text_ += bracket;
    fresh_ = true;
  }
  void close(char bracket) {
    text_ += bracket;
    fresh_ = false;
  }

  std::string text_;
  bool fresh_ = true;  ///< no comma is due
};

/// Source of the opcodes: Python's Lib/pickletools.py.
class PickleSink final : public Sink {
 public:
  void begin_list() override {
    count_item();
    data_ += "](";
    items_.push_back(0);
  }
  void end_list() override {
    data_ += 'e';
    items_.pop_back();
  }
  void begin_dictionary() override {
    count_item();
    data_ += "}(";
    items_.push_back(kUncounted);
  }
  void end_dictionary() override {
    data_ += 'u';
    items_.pop_back();
  }
  void key(std::string_view text) override { put_word(text); }
  void number(std::uint64_t value) override {
    count_item();
    if (value < 256) {
      data_ += 'K';
      little(value, 1);
    } else if (value <= 0x7fff'ffff) {
      data_ += 'J';
      little(value, 4);
    } else {
      // One byte more, so that no number looks negative.
      data_ += value >> 63U != 0 ? "\x8a\x09" : "\x8a\x08";
      little(value, 8);
      if (value >> 63U != 0) data_ += '\0';
    }
  }
  void word(std::string_view text) override {
    count_item();
    put_word(text);
  }
  void flag(bool value) override {
    count_item();
    data_ += value ? '\x88' : '\x89';
  }
  std::string finish() override { return std::move(data_) + '.'; }

 private:
  static constexpr int kUncounted = -1;

  void little(std::uint64_t value, unsigned width) {
    for (unsigned i = 0; i < width; ++i) data_ += static_cast<char>(value >> (8 * i));
  }
  void put_word(std::string_view text) {
    const auto known = memo_.find(text);
    if (known != memo_.end()) {
      data_ += 'h';
      return little(known->second, 1);
    }
    data_ += '\x8c';
    little(text.size(), 1);
    data_ += text;
    // There are far fewer words than the 256 that one byte tells apart.
    data_ += '\x94';
    memo_.emplace(text, memo_.size());
  }
  /// Readers take a list's items from a stack: in portions, as Python writes them.
  void count_item() {
    constexpr int kPortion = 1000;
    if (items_.empty() || items_.back() == kUncounted) return;
    if (items_.back()++ != kPortion) return;
    data_ += "e(";
    items_.back() = 1;
  }

  std::string data_ = "\x80\x04";
  std::vector<int> items_;
  std::map<std::string, std::uint64_t, std::less<>> memo_;
};

std::string_view state_of(memory::BlockUse use) {
  if (use == memory::BlockUse::live) return "active_allocated";
  return use == memory::BlockUse::pending ? "active_pending_free" : "inactive";
}

void write_segment(Sink& sink, const memory::SegmentLayout& segment) {
  Bytes allocated;
  Bytes active;
  Bytes requested;
  for (const memory::BlockLayout& block : segment.blocks) {
    if (block.use == memory::BlockUse::live) allocated += block.size;
    if (block.use == memory::BlockUse::live || block.use == memory::BlockUse::pending) active += block.size;
    requested += block.requested;
  }
  sink.begin_dictionary();
  sink.pair("device", 0);
  sink.pair("address", segment.address.value);
  sink.pair("total_size", segment.size.value);
  sink.pair("allocated_size", allocated.value);
  sink.pair("active_size", active.value);
  sink.pair("requested_size", requested.value);
  sink.pair("stream", segment.stream.value);
  sink.pair("segment_type", "large");
  sink.key("segment_pool_id"), sink.begin_list(), sink.number(0), sink.number(0), sink.end_list();
  sink.key("is_expandable"), sink.flag(true);
  sink.empty_list("frames");
  sink.key("blocks"), sink.begin_list();
  for (const memory::BlockLayout& block : segment.blocks) {
    sink.begin_dictionary();
    sink.pair("address", block.address.value);
    sink.pair("size", block.size.value);
    sink.pair("requested_size", block.use == memory::BlockUse::live ? block.requested.value : block.size.value);
    sink.pair("state", state_of(block.use));
    sink.empty_list("frames");
    sink.end_dictionary();
  }
  sink.end_list();
  sink.end_dictionary();
}

void write_event(Sink& sink, const RecordedEvent& event, std::string_view action) {
  sink.begin_dictionary();
  sink.pair("action", action);
  sink.pair(event.what == Happening::out_of_memory ? "device_free" : "addr", event.address);
  sink.pair("size", event.size);
  sink.pair("stream", event.stream);
  sink.pair("time_us", static_cast<std::uint64_t>(event.time_us));
  sink.empty_list("frames");
  sink.end_dictionary();
}

void write_happening(Sink& sink, const RecordedEvent& event) {
  switch (event.what) {
    case Happening::allocated:
      return write_event(sink, event, "alloc");
    case Happening::freed:
      write_event(sink, event, "free_requested");
      return write_event(sink, event, "free_completed");
    case Happening::mapped:
      return write_event(sink, event, "segment_map");
    case Happening::unmapped:
      return write_event(sink, event, "segment_unmap");
    case Happening::out_of_memory:
      return write_event(sink, event, "oom");
  }
}

std::string write(Sink& sink, const Recording& recording) {
  sink.begin_dictionary();
  sink.key("segments"), sink.begin_list();
  for (const memory::SegmentLayout& segment : recording.segments) write_segment(sink, segment);
  sink.end_list();
  sink.key("device_traces"), sink.begin_list(), sink.begin_list();
  for (const RecordedEvent& event : recording.events) write_happening(sink, event);
  sink.end_list(), sink.end_list();
  sink.key("allocator_settings"), sink.begin_dictionary();
  sink.pair("allocator", "gpuwarden");
  sink.key("expandable_segments"), sink.flag(true);
  sink.end_dictionary();
  sink.empty_list("external_annotations");
  sink.end_dictionary();
  return sink.finish();
}

bool is_pickle_name(std::string_view file) { return file.ends_with(".pickle") || file.ends_with(".pkl"); }

}  // namespace

std::string snapshot_json(const Recording& recording) {
  JsonSink sink;
  return write(sink, recording);
}

std::string snapshot_pickle(const Recording& recording) {
  PickleSink sink;
  return write(sink, recording);
}

Result<void> check_snapshot_name(std::string_view file) {
  if (is_pickle_name(file) || file.ends_with(".json")) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("no known format ends like '{}'", printable(file)),
              "end it in .pickle, for PyTorch's viewer, or in .json");
}

std::string snapshot_for(std::string_view file, const Recording& recording) {
  return is_pickle_name(file) ? snapshot_pickle(recording) : snapshot_json(recording);
}

}  // namespace gpuwarden::memtrace
