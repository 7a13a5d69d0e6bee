// SPDX-License-Identifier: Apache-2.0
// What tests do less of under sanitizers: repetitions, many times slower there, and address space.
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

/// ThreadSanitizer leaves a program too little address space for a pool over the memory of a large device.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kLittleAddressSpace = true;
#elif defined(__has_feature)
inline constexpr bool kLittleAddressSpace = __has_feature(thread_sanitizer);
#else
inline constexpr bool kLittleAddressSpace = false;
#endif

/// `count`, or a twentieth of it (at least 1) under a sanitizer.
constexpr unsigned repetitions(unsigned count) { return kSanitized ? std::max(1U, count / 20) : count; }

}  // namespace gpuwarden::testing
