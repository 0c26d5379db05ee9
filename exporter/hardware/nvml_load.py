"""Who uses the GPUs, in the NVML worker's process: opened once, read for each line. See gpu_load.py."""

from collections.abc import Mapping
from typing import Any

from exporter.hardware import nvml_codes as codes
from exporter.hardware.nvml import Handle, Library, NvmlError

MEMORY_V2 = 0x02000028
"""nvmlMemory_v2: version 1 counts what the driver keeps for itself as used, over 1 GiB on the largest GPUs."""


class Load:
    """As nvml_session.Session, with other questions."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._open = False

    def read(self) -> Mapping[str, Any]:
        """`init` is 0, or why NVML could not be opened."""
        try:
            if not self._open:
                self._library.open()
                self._open = True
            count = int(self._library.call("nvmlDeviceGetCount"))
            return {"init": codes.SUCCESS, "gpus": [self._gpu(index) for index in range(count)]}
        except NvmlError as error:
            return {"init": error.code, "gpus": []}

    def close(self) -> None:
        """Shut NVML down."""
        if self._open:
            self._library.close()
            self._open = False

    def _gpu(self, index: int) -> Mapping[str, Any]:
        """One GPU; of one whose processes can't be listed nobody knows that it is free."""
        found: dict[str, Any] = {"index": index, "uuid": "", "pci": "", "pids": [], "failure": ""}
        found |= {"utilisation": None, "memory": None, "mig": 0}
        try:
            handle = self._library.call("nvmlDeviceGetHandleByIndex", index)
            found["uuid"] = str(self._library.call("nvmlDeviceGetUUID", handle))
            pci = self._library.call("nvmlDeviceGetPciInfo", handle)
            found["pci"] = f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"
            processes = self._library.call("nvmlDeviceGetComputeRunningProcesses", handle)
        except NvmlError as error:
            return {**found, "failure": str(error)}
        found["pids"] = [int(process.pid) for process in processes]
        rates = self._optional("nvmlDeviceGetUtilizationRates", handle)
        memory = self._optional("nvmlDeviceGetMemoryInfo", handle, MEMORY_V2)
        if memory is None:
            memory = self._optional("nvmlDeviceGetMemoryInfo", handle)
        mode = self._optional("nvmlDeviceGetMigMode", handle)
        found["utilisation"] = None if rates is None else int(rates.gpu)
        found["memory"] = None if memory is None else int(memory.used)
        found["mig"] = 0 if mode is None else int(mode[0])
        return found

    def _optional(self, call: str, handle: Handle, *arguments: int) -> Any:
        try:
            return self._library.call(call, handle, *arguments)
        except NvmlError:
            return None
