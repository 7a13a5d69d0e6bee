// SPDX-License-Identifier: Apache-2.0
// Sources: names and types before 4.9 from etc/default-counters.csv of dcgm-exporter 4.8.3; names of 4.9 from the field
// catalogue of DCGM 4.7 (docs.nvidia.com/datacenter/dcgm/latest/reference/field-identifiers.html) and what changed its
// unit from the release notes of 4.9.0. The types of 4.9 are those of the fields they replace.
#include "gpuwarden/cluster/dcgm_fields.hpp"

#include <array>

namespace gpuwarden::cluster {
namespace {

using facts::MetricKind;

constexpr double kPercentOfRatio = 0.01;
constexpr double kMiB = 1.0 / 1048576;
constexpr double kHertz = 1e6;
constexpr std::string_view kUnconfirmed = "its name in 4.9 is not confirmed";

constexpr auto kDcgmRows = std::to_array<DcgmRow>({
    {{"DCGM_FI_DEV_SM_CLOCK", "MHz"}, {"DCGM_FI_DEV_SM_CLOCK_HERTZ", "Hz", kHertz}, "clock_sm"},
    {{"DCGM_FI_DEV_MEM_CLOCK", "MHz"}, {"DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", "Hz", kHertz}, "clock_memory"},
    {{"DCGM_FI_DEV_MEMORY_TEMP", "C"}, {"DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", "C"}, "memory_temperature"},
    {{"DCGM_FI_DEV_GPU_TEMP", "C"}, {"DCGM_FI_DEV_GPU_TEMP_CELSIUS", "C"}, "temperature"},
    {{"DCGM_FI_DEV_POWER_USAGE", "W"}, {"DCGM_FI_DEV_BOARD_POWER_WATTS", "W"}, "power"},
    {{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "mJ", 1000},
     {"DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "J"},
     "energy",
     MetricKind::counter},
    {{"DCGM_FI_PROF_PCIE_TX_BYTES", "B/s"}, {}, "pcie_sent", MetricKind::gauge, kUnconfirmed},
    {{"DCGM_FI_PROF_PCIE_RX_BYTES", "B/s"}, {}, "pcie_received", MetricKind::gauge, kUnconfirmed},
    {{"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", ""},
     {"DCGM_FI_DEV_PCIE_REPLAY_TOTAL", ""},
     "pcie_replays",
     MetricKind::counter},
    {{"DCGM_FI_DEV_GPU_UTIL", "%"}, {"DCGM_FI_DEV_GPU_UTIL_RATIO", "0 to 1", kPercentOfRatio}, "utilization"},
    {{"DCGM_FI_DEV_MEM_COPY_UTIL", "%"},
     {"DCGM_FI_DEV_MEMORY_UTIL_RATIO", "0 to 1", kPercentOfRatio},
     "memory_utilization"},
    {{"DCGM_FI_DEV_ENC_UTIL", "%"}, {"DCGM_FI_DEV_ENC_UTIL_RATIO", "0 to 1", kPercentOfRatio}, "encoder_utilization"},
    {{"DCGM_FI_DEV_DEC_UTIL", "%"}, {"DCGM_FI_DEV_DEC_UTIL_RATIO", "0 to 1", kPercentOfRatio}, "decoder_utilization"},
    {{"DCGM_FI_DEV_POWER_VIOLATION", "ns", 1e9},
     {"DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL", "s"},
     "slowdown_power",
     MetricKind::counter},
    {{"DCGM_FI_DEV_THERMAL_VIOLATION", "ns", 1e9},
     {"DCGM_FI_DEV_GPU_THERMAL_THROTTLE_SECONDS_TOTAL", "s"},
     "slowdown_thermal",
     MetricKind::counter},
    {{"DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "ns", 1e9}, {}, "slowdown_sync_boost", MetricKind::counter, kUnconfirmed},
    {{"DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "ns", 1e9}, {}, "slowdown_board_limit", MetricKind::counter, kUnconfirmed},
    {{"DCGM_FI_DEV_LOW_UTIL_VIOLATION", "ns", 1e9}, {}, "slowdown_low_utilization", MetricKind::counter, kUnconfirmed},
    {{"DCGM_FI_DEV_RELIABILITY_VIOLATION", "ns", 1e9}, {}, "slowdown_reliability", MetricKind::counter, kUnconfirmed},
    {{"DCGM_FI_DEV_FB_FREE", "MiB", kMiB}, {"DCGM_FI_DEV_FB_FREE_BYTES", "B"}, "memory_free"},
    {{"DCGM_FI_DEV_FB_USED", "MiB", kMiB}, {"DCGM_FI_DEV_FB_USED_BYTES", "B"}, "memory_used"},
    {{"DCGM_FI_DEV_FB_RESERVED", "MiB", kMiB}, {"DCGM_FI_DEV_FB_RESERVED_BYTES", "B"}, "memory_reserved"},
    {{}, {"DCGM_FI_DEV_FB_CAPACITY_BYTES", "B"}, "memory_total", MetricKind::gauge, "new in 4.9"},
    {{"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", ""},
     {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", ""},
     "ecc_corrected_volatile",
     MetricKind::counter},
    {{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", ""},
     {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", ""},
     "ecc_uncorrected_volatile",
     MetricKind::counter},
    {{"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", ""},
     {"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", ""},
     "ecc_corrected_aggregate",
     MetricKind::counter},
    {{"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", ""},
     {"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", ""},
     "ecc_uncorrected_aggregate",
     MetricKind::counter},
    {{"DCGM_FI_DEV_RETIRED_SBE", ""},
     {"DCGM_FI_DEV_PAGE_RETIRED_SBE_TOTAL", ""},
     "retired_pages_single_bit",
     MetricKind::counter},
    {{"DCGM_FI_DEV_RETIRED_DBE", ""},
     {"DCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL", ""},
     "retired_pages_double_bit",
     MetricKind::counter},
    {{"DCGM_FI_DEV_RETIRED_PENDING", ""},
     {"DCGM_FI_DEV_PAGE_RETIRED_PENDING", ""},
     "retired_pages_pending",
     MetricKind::counter},
    {{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", ""},
     {"DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", ""},
     "remapped_rows_uncorrected",
     MetricKind::counter},
    {{"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", ""},
     {"DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", ""},
     "remapped_rows_corrected",
     MetricKind::counter},
    {{"DCGM_FI_DEV_ROW_REMAP_FAILURE", ""}, {"DCGM_FI_DEV_ROW_REMAP_FAILED", ""}, "remapped_rows_failed"},
    {{"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "MB/s"},
     {"DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", "B/s"},
     "",
     MetricKind::gauge,
     "NVML's rates are those of all traffic, DCGM's count the payload"},
    {{"DCGM_FI_DEV_VGPU_LICENSE_STATUS", ""},
     {"DCGM_FI_DEV_VGPU_LICENSE_STATUS", ""},
     "",
     MetricKind::gauge,
     "licences of virtual GPUs are not read"},
    {{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0 to 1"},
     {"DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "0 to 1"},
     "",
     MetricKind::gauge,
     "the graphics engine's share is not read"},
    {{"DCGM_FI_PROF_SM_ACTIVE", "0 to 1", kPercentOfRatio},
     {"DCGM_FI_PROF_SM_UTIL_RATIO", "0 to 1", kPercentOfRatio},
     "sm_active"},
    {{"DCGM_FI_PROF_SM_OCCUPANCY", "0 to 1", kPercentOfRatio},
     {"DCGM_FI_PROF_SM_OCCUPANCY_RATIO", "0 to 1", kPercentOfRatio},
     "sm_occupancy"},
    {{"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0 to 1", kPercentOfRatio},
     {"DCGM_FI_PROF_TENSOR_UTIL_RATIO", "0 to 1", kPercentOfRatio},
     "tensor_active"},
    {{"DCGM_FI_PROF_DRAM_ACTIVE", "0 to 1", kPercentOfRatio},
     {"DCGM_FI_PROF_DRAM_UTIL_RATIO", "0 to 1", kPercentOfRatio},
     "dram_active"},
    {{"DCGM_FI_PROF_PIPE_FP64_ACTIVE", "0 to 1", kPercentOfRatio},
     {"DCGM_FI_PROF_FP64_UTIL_RATIO", "0 to 1", kPercentOfRatio},
     "fp64_active"},
    {{"DCGM_FI_PROF_PIPE_FP32_ACTIVE", "0 to 1", kPercentOfRatio},
     {"DCGM_FI_PROF_FP32_UTIL_RATIO", "0 to 1", kPercentOfRatio},
     "fp32_active"},
});

}  // namespace

std::span<const DcgmRow> dcgm_rows() { return kDcgmRows; }

}  // namespace gpuwarden::cluster
