// SPDX-License-Identifier: Apache-2.0
// Names and units before 4.9: etc/default-counters.csv of dcgm-exporter 4.8.3; of 4.9: the field catalogue of DCGM 4.7
// (docs.nvidia.com/datacenter/dcgm/latest/reference/field-identifiers.html) and the release notes of 4.9.0.
#include "cluster/dcgm_names.hpp"

#include <array>

namespace gpuwarden::cluster {
namespace {

constexpr double kMebibyte = 1048576;
constexpr double kPercent = 100;
constexpr double kFromHertz = 1e-6;
constexpr double kFromNano = 1e-9;

constexpr auto kFields = std::to_array<DcgmField>({
    {"DEV_SM_CLOCK", "clock_sm"},
    {"DEV_SM_CLOCK_HERTZ", "clock_sm", kFromHertz},
    {"DEV_MEM_CLOCK", "clock_memory"},
    {"DEV_MEMORY_CLOCK_HERTZ", "clock_memory", kFromHertz},
    {"DEV_MEMORY_TEMP", "memory_temperature"},
    {"DEV_MEMORY_TEMP_CELSIUS", "memory_temperature"},
    {"DEV_GPU_TEMP", "temperature"},
    {"DEV_GPU_TEMP_CELSIUS", "temperature"},
    {"DEV_POWER_USAGE", "power"},
    {"DEV_BOARD_POWER_WATTS", "power"},
    {"DEV_TOTAL_ENERGY_CONSUMPTION", "energy", 1e-3},
    {"DEV_GPU_ENERGY_JOULES_TOTAL", "energy"},
    {"PROF_PCIE_TX_BYTES", "pcie_sent"},
    {"PROF_PCIE_RX_BYTES", "pcie_received"},
    {"DEV_PCIE_REPLAY_COUNTER", "pcie_replays"},
    {"DEV_PCIE_REPLAY_TOTAL", "pcie_replays"},
    {"DEV_GPU_UTIL", "utilization"},
    {"DEV_GPU_UTIL_RATIO", "utilization", kPercent},
    {"DEV_MEM_COPY_UTIL", "memory_utilization"},
    {"DEV_MEMORY_UTIL_RATIO", "memory_utilization", kPercent},
    {"DEV_ENC_UTIL", "encoder_utilization"},
    {"DEV_ENC_UTIL_RATIO", "encoder_utilization", kPercent},
    {"DEV_DEC_UTIL", "decoder_utilization"},
    {"DEV_DEC_UTIL_RATIO", "decoder_utilization", kPercent},
    {"DEV_POWER_VIOLATION", "slowdown_power", kFromNano},
    {"DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL", "slowdown_power"},
    {"DEV_THERMAL_VIOLATION", "slowdown_thermal", kFromNano},
    {"DEV_GPU_THERMAL_THROTTLE_SECONDS_TOTAL", "slowdown_thermal"},
    {"DEV_FB_FREE", "memory_free", kMebibyte},
    {"DEV_FB_FREE_BYTES", "memory_free"},
    {"DEV_FB_USED", "memory_used", kMebibyte},
    {"DEV_FB_USED_BYTES", "memory_used"},
    {"DEV_FB_RESERVED", "memory_reserved", kMebibyte},
    {"DEV_FB_RESERVED_BYTES", "memory_reserved"},
    {"DEV_FB_CAPACITY_BYTES", "memory_total"},
    {"DEV_UNCORRECTABLE_REMAPPED_ROWS", "remapped_rows_uncorrected"},
    {"DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", "remapped_rows_uncorrected"},
    {"DEV_CORRECTABLE_REMAPPED_ROWS", "remapped_rows_corrected"},
    {"DEV_ROW_REMAP_CORRECTABLE_TOTAL", "remapped_rows_corrected"},
    {"DEV_ROW_REMAP_FAILURE", "remapped_rows_failed"},
    {"DEV_ROW_REMAP_FAILED", "remapped_rows_failed"},
    {"PROF_SM_ACTIVE", "sm_active", kPercent},
    {"PROF_SM_UTIL_RATIO", "sm_active", kPercent},
    {"PROF_SM_OCCUPANCY", "sm_occupancy", kPercent},
    {"PROF_SM_OCCUPANCY_RATIO", "sm_occupancy", kPercent},
    {"PROF_PIPE_TENSOR_ACTIVE", "tensor_active", kPercent},
    {"PROF_TENSOR_UTIL_RATIO", "tensor_active", kPercent},
    {"PROF_DRAM_ACTIVE", "dram_active", kPercent},
    {"PROF_DRAM_UTIL_RATIO", "dram_active", kPercent},
});

}  // namespace

std::span<const DcgmField> dcgm_fields() { return kFields; }

}  // namespace gpuwarden::cluster
