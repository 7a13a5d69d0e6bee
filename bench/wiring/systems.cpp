// SPDX-License-Identifier: Apache-2.0
#include "wiring/systems.hpp"

#include <algorithm>
#include <span>

namespace gpuwarden::bench {
namespace {

/// NVLinks between two GPUs, counted from 1 as the source does.
struct Edge {
  unsigned a;
  unsigned b;
  double worth;
};

System system_of(std::string name, unsigned gpus, std::span<const Edge> edges) {
  System system{std::move(name), placement::LinkGraph(gpus)};
  for (unsigned a = 0; a < gpus; ++a) {
    for (unsigned b = a + 1; b < gpus; ++b) {
      const auto edge = std::ranges::find_if(edges, [&](const Edge& one) {
        return std::pair(std::min(one.a, one.b), std::max(one.a, one.b)) == std::pair(a + 1, b + 1);
      });
      system.links.set(a, b, edge == edges.end() ? kPcie : edge->worth);
    }
  }
  return system;
}

constexpr Edge kDgxV[] = {{1, 2, 25}, {1, 3, 25}, {1, 4, 50}, {1, 5, 50}, {2, 3, 50}, {2, 4, 25},
                          {2, 6, 50}, {3, 4, 50}, {3, 7, 25}, {4, 8, 25}, {5, 8, 50}, {5, 6, 25},
                          {5, 7, 25}, {6, 7, 50}, {6, 8, 25}, {7, 8, 50}};
constexpr Edge kDgxP[] = {{1, 2, 20}, {1, 3, 20}, {1, 4, 20}, {1, 5, 20}, {2, 3, 20}, {2, 4, 20},
                          {2, 6, 20}, {3, 4, 20}, {3, 7, 20}, {4, 8, 20}, {5, 8, 20}, {5, 6, 20},
                          {5, 7, 20}, {6, 7, 20}, {6, 8, 20}, {7, 8, 20}};
constexpr Edge kSummit[] = {{1, 2, 50}, {2, 3, 50}, {1, 3, 50}, {4, 5, 50}, {5, 6, 50}, {4, 6, 50}};
constexpr Edge kTorus[] = {
    {1, 2, 50},   {1, 4, 25},   {1, 13, 50},  {2, 3, 50},   {2, 6, 25},   {2, 14, 25},  {3, 4, 50},   {3, 7, 25},
    {3, 15, 25},  {4, 8, 25},   {4, 16, 50},  {5, 6, 50},   {5, 9, 25},   {5, 8, 25},   {6, 7, 50},   {6, 10, 25},
    {7, 8, 50},   {7, 11, 25},  {8, 12, 25},  {9, 10, 50},  {9, 13, 25},  {9, 12, 25},  {10, 11, 50}, {10, 14, 25},
    {11, 12, 50}, {11, 15, 25}, {12, 16, 25}, {13, 14, 50}, {13, 16, 25}, {14, 15, 50}, {15, 16, 50}};
constexpr Edge kCubeMesh[] = {
    {1, 2, 25},   {1, 3, 25},   {1, 4, 50},   {1, 12, 25},  {2, 3, 50},   {2, 4, 25},   {2, 6, 25},   {3, 10, 25},
    {3, 7, 25},   {4, 9, 25},   {6, 7, 25},   {5, 6, 50},   {6, 8, 25},   {5, 16, 50},  {5, 8, 25},   {5, 7, 25},
    {7, 8, 50},   {7, 14, 25},  {8, 13, 50},  {9, 10, 25},  {9, 12, 25},  {9, 11, 50},  {10, 11, 50}, {10, 12, 25},
    {10, 14, 25}, {11, 15, 25}, {14, 15, 25}, {13, 14, 50}, {14, 16, 25}, {13, 16, 50}, {13, 15, 25}, {15, 16, 50}};

}  // namespace

std::vector<System> systems() {
  constexpr unsigned kSmall = 8;
  constexpr unsigned kLarge = 16;
  return {system_of("dgx-v", kSmall, kDgxV), system_of("dgx-p", kSmall, kDgxP), system_of("summit", 6, kSummit),
          system_of("torus-2d", kLarge, kTorus), system_of("cube-mesh-16", kLarge, kCubeMesh)};
}

}  // namespace gpuwarden::bench
