// SPDX-License-Identifier: Apache-2.0
#include "diagnose_log.hpp"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>

namespace gpuwarden::bench {

namespace {

using Out = std::back_insert_iterator<fmt::memory_buffer>;

class Writer {
 public:
  explicit Writer(fmt::memory_buffer& buffer) : out_(buffer) {}

  /// One step of one of the trainers, or what stands between steps.
  void ordinary() {
    ++step_;
    seconds_ += 1 + below(3);
    const auto kind = below(1000);
    if (kind < 260) return megatron();
    if (kind < 460) return hugging_face();
    if (kind < 600) return deepspeed();
    if (kind < 720) return plain();
    if (kind < 800) return progress();
    if (kind < 870) return server();
    if (kind < 930) return nccl();
    if (kind < 960) return warning();
    if (kind < 985) return kernel();
    if (kind < 997) return checkpoint();
    traceback();
  }

  void failure() {
    constexpr std::array<std::string_view, 6> kFailures{
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.10 "
        "GiB\n",
        "RuntimeError: CUDA error: an illegal memory access was encountered\n",
        "[rank5]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=188, OpType=ALLREDUCE) ran for 600066 "
        "ms\n",
        "[ 8123.442101] NVRM: Xid (PCI:0000:4f:00): 79, pid=1811, GPU has fallen off the bus.\n",
        "node17: Test NCCL WARN NET/IB : Got completion from peer 10.0.3.7<48102> with status=12 opcode=0 len=0\n",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=8812.0. Some of the step tasks have been OOM "
        "Killed.\n"};
    fmt::format_to(out_, "{}", kFailures[below(kFailures.size())]);
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  double real(double from, double to) { return from + (to - from) * static_cast<double>(below(1 << 20)) / (1 << 20); }
  std::string clock() const {
    return fmt::format("{:02}:{:02}:{:02}", seconds_ / 3600 % 24, seconds_ / 60 % 60, seconds_ % 60);
  }
  std::string day() const {
    return fmt::format("2025-{:02}-{:02}", 1 + seconds_ / 2600000 % 12, 1 + seconds_ / 86400 % 28);
  }

  void megatron() {
    fmt::format_to(
        out_,
        " [{} {}] iteration {:8}/  500000 | consumed samples: {:12} | elapsed time per iteration (ms): {:.1f} | "
        "throughput per GPU (TFLOP/s/GPU): {:.1f} | learning rate: {:.6E} | global batch size:  1024 | "
        "lm loss: {:.6E} | loss scale: 1.0 | grad norm: {:.3f} | number of skipped iterations:   0 | "
        "number of nan iterations:   0 |\n",
        day(), clock(), step_, step_ * 1024, real(2000, 9000), real(300, 480), real(1e-5, 3e-4), real(1.6, 3),
        real(0.05, 2));
  }

  void hugging_face() {
    fmt::format_to(out_, "{{'loss': {:.4f}, 'grad_norm': {:.6f}, 'learning_rate': {:.6e}, 'epoch': {:.2f}}}\n",
                   real(0.8, 3), real(0.1, 4), real(1e-6, 2e-5), real(0, 3));
  }

  void deepspeed() {
    fmt::format_to(out_,
                   "[{} {},{:03}] [INFO] [logging.py:96:log_dist] [Rank 0] step={}, skipped=0, lr=[{:.6e}], mom=[(0.9, "
                   "0.95)]\n[{} {},{:03}] [INFO] [timer.py:199:stop] epoch=0/micro_step={}/global_step={}, "
                   "RunningAvgSamplesPerSec={:.4f}, CurrSamplesPerSec={:.4f}, MemAllocated={:.2f}GB, "
                   "MaxMemAllocated={:.2f}GB\n",
                   day(), clock(), below(1000), step_, real(1e-6, 3e-4), day(), clock(), below(1000), step_ * 8, step_,
                   real(10, 90), real(10, 90), real(10, 40), real(40, 79));
  }

  void plain() {
    fmt::format_to(out_,
                   "{} {},{:03} - train - INFO - Epoch [{}/90] Step [{}/{}] Loss: {:.4f} Acc@1: {:.2f} lr: {:.6f} "
                   "images/s: {:.1f} data_time: {:.3f}s batch_time: {:.3f}s max_mem: {}MB\n",
                   day(), clock(), below(1000), below(90), step_ % 5004, 5004, real(0.5, 7), real(0, 80), real(0, 0.1),
                   real(800, 3000), real(0, 0.1), real(0.2, 0.5), below(80000));
  }

  void progress() {
    const auto percent = below(100);
    fmt::format_to(out_, "Training: {:3}%|{:<10}| {}/{} [{}<{}, {:5.2f}it/s, loss={:.3f}, v_num=0]\n", percent,
                   std::string(percent / 10, '#'), step_ % 9000, 9000, clock(), clock(), real(1, 20), real(0.5, 3));
  }

  void server() {
    fmt::format_to(
        out_,
        "INFO {} {} metrics.py:345] Avg prompt throughput: {:.1f} tokens/s, Avg generation throughput: {:.1f} "
        "tokens/s, Running: {} reqs, Swapped: 0 reqs, Pending: {} reqs, GPU KV cache usage: {:.1f}%, CPU KV "
        "cache usage: 0.0%.\n",
        day().substr(5), clock(), real(0, 9000), real(0, 3000), below(256), below(40), real(0, 99));
  }

  void nccl() {
    const auto rank = below(64);
    fmt::format_to(
        out_,
        "node{}:{}:{} [{}] NCCL INFO Channel {:02}/0 : {}[{}] -> {}[{}] via P2P/CUMEM/read\nnode{}:{}:{} [{}] "
        "NCCL INFO comm 0x{:x} rank {} nranks 64 cudaDev {} nvmlDev {} busId {:x}000 commId 0x{:x} - Init "
        "COMPLETE\n",
        rank / 8, 20000 + rank, 21000 + below(3000), rank % 8, below(24), rank, rank % 8, (rank + 1) % 64,
        (rank + 1) % 8, rank / 8, 20000 + rank, 21000 + below(3000), rank % 8, random_(), rank, rank % 8, rank % 8,
        below(256), random_());
  }

  void warning() {
    constexpr std::array<std::string_view, 5> kWarnings{
        "/usr/local/lib/python3.11/site-packages/torch/utils/checkpoint.py:464: UserWarning: torch.utils.checkpoint: "
        "the "
        "use_reentrant parameter should be passed explicitly.\n  warnings.warn(\n",
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being "
        "overloaded, please further tune the variable for optimal performance in your application as needed.\n",
        "The attention mask and the pad token id were not set. As a consequence, you may observe unexpected "
        "behavior.\n",
        "WARNING:root:Some weights of the model checkpoint were not used when initializing the model: "
        "['lm_head.bias']\n",
        "FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cuda', "
        "args...)` "
        "instead.\n"};
    fmt::format_to(out_, "{}", kWarnings[below(kWarnings.size())]);
  }

  void kernel() {
    fmt::format_to(out_,
                   "[{:5}.{:06}] audit: type=1400 audit({}.{:03}:{}): apparmor=\"STATUS\" operation=\"profile_load\" "
                   "profile=\"unconfined\" name=\"docker-default\" pid={}\n",
                   seconds_ % 100000, below(1000000), 1700000000 + seconds_, below(1000), below(90000), below(60000));
  }

  void checkpoint() {
    fmt::format_to(
        out_,
        "saving checkpoint at iteration {:7} to /lustre/runs/gpt-7b/checkpoints in torch_dist format\n  "
        "successfully saved checkpoint from iteration {:7} [ t 1/8, p 1/4 ]\n(min, max) time across ranks (ms):\n "
        "   save-checkpoint ................................: ({:.2f}, {:.2f})\n",
        step_, step_, real(9000, 9500), real(9500, 9900));
  }

  void traceback() {
    fmt::format_to(
        out_,
        "Traceback (most recent call last):\n  File \"/workspace/train.py\", line {}, in <module>\n    main()\n  "
        "File \"/workspace/train.py\", line {}, in main\n    batch = next(loader)\n  File "
        "\"/usr/lib/python3.11/site-packages/torch/utils/data/dataloader.py\", line 701, in __next__\n    data = "
        "self._next_data()\nValueError: sample {} is shorter than the context, skipping it\n",
        below(400), below(400), random_() % 1000000);
  }

  Out out_;
  std::mt19937_64 random_{20250101};
  std::uint64_t step_ = 0;
  std::uint64_t seconds_ = 0;
};

}  // namespace

std::int64_t write_log(const std::string& path, std::uint64_t bytes, std::uint64_t rarity) {
  std::ofstream file(path, std::ios::binary);
  fmt::memory_buffer buffer;
  Writer writer{buffer};
  std::int64_t failures = 0;
  std::uint64_t lines = 0;
  for (std::uint64_t written = 0; written < bytes && file;) {
    writer.ordinary();
    if (++lines % rarity == 0) {
      writer.failure();
      ++failures;
    }
    if (buffer.size() < (1U << 20)) continue;
    file.write(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    written += buffer.size();
    buffer.clear();
  }
  file.flush();
  return file ? failures : -1;
}

}  // namespace gpuwarden::bench
