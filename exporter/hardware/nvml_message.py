"""From what the NVML worker writes to readings. Pure: a mapping in, values out, and nothing that NVML did not say.

The worker forwards what NVML answered as it was: fields as `[id, scope, value type, bits of the union]`, so that
all meaning is given here, for the real library and a simulated one alike.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from exporter.hardware import nvml_codes as codes
from exporter.hardware.parse import text
from exporter.model import Fault
from exporter.model_gpu import FABRIC_COMPLETED, Fabric, Gpu, NvLink, Pcie

SOURCE = "nvml"
_BLANK_64 = range(0x7FFFFFFFFFFFFFF0, 1 << 63)
_BLANK_32 = range(0x7FFFFFF0, 1 << 31)
_BLANK_DOUBLE = 1 << 47
"""140737488355328: what DCGM and its relatives hand on for "blank"; with it everything up to +15."""
_SIZES: Mapping[int, tuple[int, bool]] = {
    1: (4, False),
    2: (8, False),
    3: (8, False),
    4: (8, True),
    5: (4, True),
    6: (2, False),
}
Values = Mapping[int, Mapping[int, int | float]]


def value(value_type: int, bits: int) -> int | float | None:
    """A field's value by its type: 0 double, 1 uint, 2 ulong, 3 ulonglong, 4 longlong, 5 int, 6 ushort.

    `bits` are the 8 bytes of the union as a number; above a narrow type's width they hold rubbish. None for an
    unknown type, a negative number (no field here has one) and the "blank" and "not available" sentinels.
    """
    if value_type == 0:
        (double,) = struct.unpack("<d", struct.pack("<Q", bits & (1 << 64) - 1))
        return double if 0 <= double < _BLANK_DOUBLE else None
    size, signed = _SIZES.get(value_type, (0, False))
    if size == 0:
        return None
    number = bits & (1 << 8 * size) - 1
    if signed and number >> (8 * size - 1):
        return None
    blank = number == (1 << 8 * size) - 1 or number in (_BLANK_32 if size == 4 else _BLANK_64)
    blank = blank or (size == 8 and _BLANK_DOUBLE <= number < _BLANK_DOUBLE + 16)
    return None if blank else number


def bit_error_ratio(raw: int) -> float:
    """The packed ratio of fields 220 and 222: mantissa (bits 8-11) x 10^-exponent (bits 0-7).

    0xFFF is how the driver writes zero.
    """
    mantissa, exponent = raw >> 8 & 0xF, raw & 0xFF
    return 0.0 if (mantissa, exponent) == (15, 255) else float(f"{mantissa}e-{exponent}")


def conditions(mask: int, summary: int) -> Mapping[str, bool]:
    """What the fabric's health mask and summary report, each with whether it is wrong."""
    found = {}
    for name, (shift, bad) in codes.HEALTH_FLAGS.items():
        if (flag := mask >> shift & 3) in (1, 2):
            found[name] = flag == bad
    configuration = mask >> codes.CONFIGURATION_SHIFT & 0xF
    if configuration:
        found["incorrect_configuration"] = configuration != 1
    if configuration in codes.CONFIGURATIONS:
        found[codes.CONFIGURATIONS[configuration]] = True
    if summary in codes.SUMMARY:
        found["unhealthy"] = False
        found.update(dict.fromkeys(codes.SUMMARY[summary], True))
    return found


def fabric(raw: Any) -> Fabric | None:
    """`[state, status, mask, summary]`; None where the GPU is in no fabric."""
    if raw is None:
        return None
    state, status, mask, summary = raw
    if state == 0:
        return None
    return Fabric(state, status if state == FABRIC_COMPLETED else None, conditions(mask, summary))


def gpu(raw: Mapping[str, Any], driver: str, numa: Callable[[str], int | None]) -> Gpu:
    """One GPU that answered; `number` is NVML's index, for the caller to change. Raises what bad data raises."""
    values = by_field(raw["fields"])
    count = _integer(values.get(codes.LINK_COUNT, {}).get(0))
    mig = raw["mig"] == 1
    pci = text(raw["pci"].encode())
    return Gpu(
        number=int(raw["index"]),
        uuid=text(raw["uuid"].encode()),
        pci_address=pci,
        model=text(raw["name"].encode()),
        driver_version=text(driver.encode()),
        serial=text(raw["serial"].encode()),
        numa_node=numa(pci),
        mig=mig,
        link_count=count if count is not None else raw["walked"],
        links=tuple(links(raw, values, mig)),
        fabric=fabric(raw["fabric"]),
        throttle={
            name: values[field][0] / 1e9 for field, name in codes.THROTTLE_FIELDS.items() if 0 in values.get(field, {})
        },
        pcie=Pcie(**{name: raw["pcie"].get(name) for name in codes.PCIE_CALLS}),
    )


def by_field(fields: Iterable[tuple[int, int, int, int]]) -> Values:
    """The values that are any, by field and scope (the link, or 0)."""
    found: dict[int, dict[int, int | float]] = defaultdict(dict)
    for field, scope, value_type, bits in fields:
        if (decoded := value(value_type, bits)) is not None:
            found[field][scope] = decoded
    return found


def links(raw: Mapping[str, Any], values: Values, mig: bool) -> Iterable[NvLink]:
    """Every link of which anything is known, by number; their state is not told in MIG mode (it is wrong)."""
    states = {**dict(raw["states"]), **values.get(codes.STATE, {})}
    errors: dict[int, dict[str, int]] = defaultdict(dict)
    for link, counter, count in raw["errors"]:
        errors[link][codes.ERROR_COUNTERS[counter]] = count
    for field, name in codes.ERROR_FIELDS.items():
        for link, count in values.get(field, {}).items():
            errors[link][name] = int(count)
    transmit_field, receive_field, unit = codes.BYTE_SOURCES.get(raw["bytes"], (0, 0, 0))
    transmitted, received = values.get(transmit_field, {}), values.get(receive_field, {})
    peers = {link: rest for link, *rest in raw["remotes"]}
    speeds, remote_links = values.get(codes.SPEED, {}), values.get(codes.REMOTE_LINK, {})
    for number in sorted({*states, *errors, *transmitted, *received}):
        link = NvLink(
            number,
            state=None if mig else _integer(states.get(number)),
            receive_bytes=int(received[number] * unit) if number in received else None,
            transmit_bytes=int(transmitted[number] * unit) if number in transmitted else None,
            speed=speeds[number] * 1e6 if number in speeds else None,
            errors=errors.get(number, {}),
            bit_error_ratios={
                name: bit_error_ratio(int(values[field][number]))
                for field, name in codes.BIT_ERROR_FIELDS.items()
                if number in values.get(field, {})
            },
        )
        if number in peers:
            kind, pci = peers[number]
            link = replace(
                link,
                remote_type=codes.REMOTE_TYPES.get(kind, ""),
                remote_pci_address=text(pci.encode()),
                remote_link=_integer(remote_links.get(number)),
            )
        yield link


def faults(raw: Mapping[str, Any], subject: str) -> tuple[Fault, ...]:
    """What this GPU (`gpu3`), or a link of it (`gpu3/link04`), should have answered and did not."""
    return tuple(
        Fault(SOURCE, subject if link < 0 else f"{subject}/link{link:02}", codes.reason(code), what)
        for what, code, link in raw["faults"]
    )


def _integer(decoded: float | None) -> int | None:
    return None if decoded is None else int(decoded)
