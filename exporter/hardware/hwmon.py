"""Temperature of the transceiver module, from the driver's hwmon folder.

mlx5_core names the module's sensor by what its firmware says (`Module0`), else `sensor<64 + n>`: drivers/net/
ethernet/mellanox/mlx5/core/hwmon.c. Other sensors (`asic`) are not the module's, and not taken.
"""

import re

from exporter.hardware import parse
from exporter.hardware.device import names, optional
from exporter.hardware.files import Files

_LABEL = re.compile(r"module ?\d*|sensor(?:6[4-9]|[7-9]\d|1\d\d)", re.IGNORECASE)
_FILE = re.compile(r"temp\d{1,3}_label")
_MILLIDEGREES = re.compile(rb"\s*(-?\d{1,6})\s*")
COLDEST, HOTTEST = -60.0, 200.0


def module_sensor(files: Files, device: str) -> str:
    """The file that holds the module's temperature, or '': `device` is the PCI function's folder."""
    for hwmon in names(files, f"{device}/hwmon"):
        folder = f"{device}/hwmon/{hwmon}"
        for name in names(files, folder):
            if _FILE.fullmatch(name) and _LABEL.fullmatch(parse.text(optional(files, f"{folder}/{name}"))):
                return f"{folder}/{name.removesuffix('_label')}_input"
    return ""


def celsius(raw: bytes) -> float | None:
    """Millidegrees as degrees Celsius; None for what no module has.

    Exactly 0 is what the register says where no module is plugged in.
    """
    match = _MILLIDEGREES.fullmatch(raw)
    value = int(match[1]) / 1000 if match else 0.0
    return value if value != 0.0 and COLDEST < value < HOTTEST else None
