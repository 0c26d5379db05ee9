"""NVML's numbers: return codes, field ids, enumerations. Our own, since the binding's names come and go.

From NVIDIA's header (nvml.h of CUDA 13). Ids never change their meaning; which of them a GPU has must be tried.
"""

from collections.abc import Mapping

SUCCESS = 0
UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 1, 2, 3, 4
DRIVER_NOT_LOADED, TIMEOUT, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = 9, 10, 12, 13
GPU_IS_LOST, RESET_REQUIRED, VERSION_MISMATCH = 15, 16, 18
ARGUMENT_VERSION_MISMATCH, DEPRECATED, UNKNOWN = 25, 26, 999

REASONS: Mapping[int, str] = {
    UNINITIALIZED: "uninitialized",
    INVALID_ARGUMENT: "invalid_argument",
    NOT_SUPPORTED: "not_supported",
    NO_PERMISSION: "no_permission",
    6: "not_found",
    7: "insufficient_size",
    8: "insufficient_power",
    DRIVER_NOT_LOADED: "driver_not_loaded",
    TIMEOUT: "timeout",
    11: "irq_issue",
    LIBRARY_NOT_FOUND: "library_not_found",
    FUNCTION_NOT_FOUND: "function_not_found",
    14: "corrupted_inforom",
    GPU_IS_LOST: "gpu_lost",
    RESET_REQUIRED: "reset_required",
    17: "operating_system",
    VERSION_MISMATCH: "version_mismatch",
    19: "in_use",
    20: "memory",
    21: "no_data",
    ARGUMENT_VERSION_MISMATCH: "argument_version_mismatch",
    DEPRECATED: "deprecated",
    27: "not_ready",
    UNKNOWN: "unknown",
}

ABSENT = frozenset(
    {INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH, DEPRECATED}
)
"""This GPU or driver has no such thing, or not for us. An unknown field is INVALID_ARGUMENT on old chips."""
LOST = frozenset({GPU_IS_LOST, RESET_REQUIRED})
"""The whole GPU is gone, whatever was asked."""
GONE = frozenset({UNINITIALIZED, DRIVER_NOT_LOADED})
"""The whole session is gone: the driver was unloaded under us."""

LINK_COUNT = 91
SPEED, STATE, REMOTE_LINK = 164, 165, 146
BYTE_SOURCES: Mapping[str, tuple[int, int, int]] = {"bytes": (202, 204, 1), "kib": (138, 139, 1024)}
"""By preference: transmit field, receive field, bytes per unit. 138/139 are KiB of payload (driver >= 450)."""

ERROR_FIELDS: Mapping[int, str] = {
    206: "malformed_packets",
    207: "buffer_overruns",
    208: "receive_errors",
    209: "receive_remote_errors",
    210: "receive_general_errors",
    211: "local_link_integrity",
    212: "transmit_discards",
    214: "recovery_failed",
    215: "recovery",
    219: "effective_errors",
    221: "symbol_errors",
}
"""Blackwell and later, by field. 215 counts all recoveries, 214 those of them that failed (213, the rest, is left
out); 205, 216-218 are deprecated."""
ERROR_COUNTERS: Mapping[int, str] = {0: "replay", 1: "recovery", 2: "crc_flit", 3: "crc_data", 4: "ecc_data"}
"""Before Blackwell, by counter of nvmlDeviceGetNvLinkErrorCounter. The fields' totals (38, 45, 52, 59, 160) say
SUCCESS and 0 on Hopper, whatever happened: they are never read (DataDog/datadog-agent#55966)."""
BIT_ERROR_FIELDS: Mapping[int, str] = {220: "effective", 222: "symbol"}
THROTTLE_FIELDS: Mapping[int, str] = {
    74: "power_cap",
    76: "sync_boost",
    269: "software_thermal",
    270: "hardware_thermal",
    271: "hardware_power_brake",
}
"""Nanoseconds throttled since the driver was loaded."""

REMOTE_TYPES: Mapping[int, str] = {0: "gpu", 1: "ibmnpu", 2: "switch"}
PCIE_CALLS: Mapping[str, str] = {
    "generation": "nvmlDeviceGetCurrPcieLinkGeneration",
    "width": "nvmlDeviceGetCurrPcieLinkWidth",
    "max_generation": "nvmlDeviceGetMaxPcieLinkGeneration",
    "max_width": "nvmlDeviceGetMaxPcieLinkWidth",
    "replays": "nvmlDeviceGetPcieReplayCounter",
}
MAX_LINKS = 36
"""More than any chip has: where a walk ends at the latest."""
XID_EVENT = 0x8

HEALTH_FLAGS: Mapping[str, tuple[int, int]] = {
    "degraded_bandwidth": (0, 1),
    "route_recovery": (2, 1),
    "route_unhealthy": (4, 1),
    "access_timeout_recovery": (6, 1),
    "partition_unassigned": (12, 2),
    "manager_disconnected": (14, 2),
}
"""Two bits of the fabric's health mask each: their shift, and which value is the bad one. 0 is "not reported";
of the others TRUE is 1 and FALSE 2, so "not zero" is wrong both ways."""
CONFIGURATION_SHIFT = 8
CONFIGURATIONS: Mapping[int, str] = {
    2: "wrong_system_guid",
    3: "wrong_chassis_serial",
    4: "no_partition",
    5: "insufficient_nvlinks",
    6: "incompatible_gpu_firmware",
    7: "invalid_location",
    8: "gpu_state_invalid",
}
"""Four bits of the same mask: 0 not reported, 1 none of these, else what is wrong."""
SUMMARY: Mapping[int, tuple[str, ...]] = {1: (), 2: ("unhealthy",), 3: ("limited_capacity",)}
"""healthSummary, from structure version 3 on."""


def reason(code: int) -> str:
    """The code as a label value: `gpu_lost`, or `nvml_1234` for one without a name here."""
    return REASONS.get(code, f"nvml_{code}")
