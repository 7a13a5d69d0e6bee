// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/store.hpp"

#include "telemetry/store_impl.hpp"

namespace gpuwarden::telemetry {

Result<Store> Store::open(const std::filesystem::path& file, const StoreConfig& config, const StoreInfo& info,
                          Clock& clock) {
  GPUWARDEN_TRY(auto impl, Impl::open(file, config, info, clock));
  return Store(std::move(impl));
}

Result<Store> Store::read(const std::filesystem::path& file, std::chrono::milliseconds patience) {
  GPUWARDEN_TRY(auto impl, Impl::read(file, patience));
  return Store(std::move(impl));
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Result<void> Store::add(const Reading& reading, const std::vector<Use>& uses,
                        const std::vector<Happening>& happenings) {
  return impl_->add(reading, uses, happenings);
}

Result<void> Store::finish(std::optional<int> exit_code) { return impl_->finish(exit_code); }

Result<void> Store::maintain() {
  while (true) {
    GPUWARDEN_TRY(const bool more, impl_->upkeep(std::chrono::milliseconds(50)));
    if (!more) return {};
  }
}

Result<StoreInfo> Store::info() const { return impl_->info(); }
Result<std::vector<KnownGpu>> Store::gpus() const { return impl_->gpus(); }
Result<std::optional<Window>> Store::covers() const { return impl_->covers(); }
Result<Series> Store::series(const Uuid& gpu, std::string_view metric, Window window,
                             std::chrono::milliseconds step) const {
  return impl_->series(gpu, metric, window, step);
}
Result<std::vector<Use>> Store::uses(Window window) const { return impl_->uses(window); }
Result<std::vector<Happening>> Store::happenings(Window window, std::size_t most) const {
  return impl_->happenings(window, most);
}

}  // namespace gpuwarden::telemetry
