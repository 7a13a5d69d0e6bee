// SPDX-License-Identifier: Apache-2.0
// How often a test repeats itself: less where sanitizers make each repetition many times slower.
#pragma once

#include <algorithm>

namespace gpuwarden::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

/// `count`, or a twentieth of it (at least 1) under a sanitizer.
constexpr unsigned repetitions(unsigned count) { return kSanitized ? std::max(1U, count / 20) : count; }

}  // namespace gpuwarden::testing
