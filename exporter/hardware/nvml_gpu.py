"""One GPU in the worker: what it has is found once, then read at every poll, as the message has it.

Nothing is decoded here: what NVML answered goes to hardware/nvml_message.py as it was.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from exporter.hardware import nvml_codes as codes
from exporter.hardware.nvml import Handle, Library, NvmlError
from exporter.hardware.nvml_fields import Answers, Fields, GoneError

Level = Literal["off", "none", "basic", "all"]
"""How much is asked of each link: nothing; its state and errors; its bytes too; everything."""
MAX_FAULTS = 16
"""Faults told of one GPU in one poll."""
LINK_FIELDS = (codes.STATE, *codes.ERROR_FIELDS)
DETAIL_FIELDS = (codes.SPEED, codes.REMOTE_LINK, *codes.BIT_ERROR_FIELDS)


@dataclass(slots=True)
class Found:
    """What one GPU has besides fields; `links` None where even walking them did not tell."""

    links: int | None
    pcie: tuple[str, ...]
    counters: list[tuple[int, int]] = field(default_factory=list)
    remotes: list[tuple[int, int, str]] = field(default_factory=list)
    states: dict[int, int] = field(default_factory=dict)
    bytes_by: str = ""
    fabric: int = 3


class GpuReader:
    """Reads one GPU of an open session; `say` is for what is worth saying once."""

    def __init__(self, library: Library, index: int, handle: Handle, level: Level, say: Callable[[str], None]) -> None:
        self._library = library
        self._index = index
        self._handle = handle
        self._level = level
        self._fields = Fields(lambda keys: library.fields(handle, keys), lambda what: say(f"gpu{index}: {what}"))
        self._found: Found | None = None
        self._identity: Mapping[str, str] = {}
        self._faults: list[tuple[str, int, int]] = []

    @property
    def uuid(self) -> str:
        """What the GPU is known by; '' before it has answered."""
        return self._identity.get("uuid", "")

    def read(self) -> dict[str, Any]:
        """Everything. Raises GoneError where the GPU, or the whole session, does not answer."""
        self._faults = []
        if not self._identity:
            self._identity = self._identify()
        if self._found is None:
            self._found = self._find()
        found = self._found
        answers = self._fields.read()
        states = self._states(found, answers)
        self._faults += answers.faults
        return {
            "index": self._index,
            **self._identity,
            "mig": self._optional("nvmlDeviceGetMigMode", default=(0, 0))[0],
            "walked": found.links,
            "fields": answers.values,
            "states": list(states.items()),
            "errors": list(self._errors(found)),
            "bytes": self._byte_source(found),
            "remotes": found.remotes,
            "fabric": self._fabric(found),
            "pcie": {name: self._told(codes.PCIE_CALLS[name]) for name in found.pcie},
            "faults": self._faults[:MAX_FAULTS],
        }

    def _identify(self) -> Mapping[str, str]:
        """What a GPU is known by must answer; of the rest, what does."""
        pci = self._call("nvmlDeviceGetPciInfo")
        return {
            "uuid": str(self._call("nvmlDeviceGetUUID")),
            # from the numbers: the text forms have an 8-digit domain, or none (GB200 has domains above 0)
            "pci": f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0",
            "name": str(self._optional("nvmlDeviceGetName", default="")),
            "serial": str(self._optional("nvmlDeviceGetSerial", default="")),
        }

    def _find(self) -> Found:
        self._fields.try_each((of, 0) for of in (codes.LINK_COUNT, *codes.THROTTLE_FIELDS))
        found = Found(
            links=self._count_links(),
            pcie=tuple(name for name, call in codes.PCIE_CALLS.items() if self._has(call)),
        )
        if self._level != "off":
            for link in range(found.links or 0):
                self._find_link(found, link)
        return found

    def _count_links(self) -> int | None:
        """Field 91 counts the chip's own links; nvmlDeviceGetNvLinkCapability says yes to all 36 there may be.

        Where that is not had, walk to the first that is not there: NOT_SUPPORTED, on Blackwell INVALID_ARGUMENT.
        """
        if self._fields.has((codes.LINK_COUNT, 0)):
            counted = self._fields.single((codes.LINK_COUNT, 0))
            return min(counted.bits & 0xFFFFFFFF, codes.MAX_LINKS)
        for link in range(codes.MAX_LINKS):
            try:
                self._call("nvmlDeviceGetNvLinkState", link)
            except NvmlError as error:
                return link if error.code in codes.ABSENT else None
        return codes.MAX_LINKS

    def _find_link(self, found: Found, link: int) -> None:
        wanted = LINK_FIELDS + (DETAIL_FIELDS if self._level == "all" else ())
        if self._level in ("basic", "all"):
            wanted += tuple(of for transmit, receive, _ in codes.BYTE_SOURCES.values() for of in (transmit, receive))
        self._fields.try_each((of, link) for of in wanted)
        for counter in codes.ERROR_COUNTERS:
            if self._has("nvmlDeviceGetNvLinkErrorCounter", link, counter):
                found.counters.append((link, counter))
        if self._level == "all" and (kind := self._told("nvmlDeviceGetNvLinkRemoteDeviceType", link)) is not None:
            found.remotes.append((link, kind, self._remote_address(link)))

    def _remote_address(self, link: int) -> str:
        """Empty where there is none: an NVSwitch may say FFFFFFFF:FF:FF, or nothing that can be read."""
        pci = self._optional("nvmlDeviceGetNvLinkRemotePciInfo", link, default=None)
        if pci is None or pci.domain > 0xFFFFFF or pci.bus > 0xFF or pci.device > 0x1F:
            return ""
        return f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"

    def _states(self, found: Found, answers: Answers) -> dict[int, int]:
        """The states that field 165 does not give. Of a link that changed, what it did not have is tried again."""
        by_field = {link: bits & 0xFFFFFFFF for of, link, _, bits in answers.values if of == codes.STATE}
        states: dict[int, int] = {}
        for link in range((found.links or 0) if self._level != "off" else 0):
            if link not in by_field:
                try:
                    states[link] = int(self._call("nvmlDeviceGetNvLinkState", link))
                except NvmlError as error:
                    self._faults.append((error.call, error.code, link))
        now = {**states, **by_field}
        for link, state in now.items():
            if found.states.get(link, state) != state:
                self._fields.retry(link)
        found.states = now
        return states

    def _byte_source(self, found: Found) -> str:
        """Chosen once for the session: another one would look like a counter's reset. '' while none answers."""
        if not found.bytes_by:
            for name, (transmit, receive, _) in codes.BYTE_SOURCES.items():
                links = range(found.links or 0)
                if any(self._fields.has((transmit, link)) and self._fields.has((receive, link)) for link in links):
                    found.bytes_by = name
                    self._fields.forget(
                        of for other, both in codes.BYTE_SOURCES.items() if other != name for of in both[:2]
                    )
                    break
        return found.bytes_by

    def _errors(self, found: Found) -> Iterator[tuple[int, int, int]]:
        for link, counter in found.counters:
            try:
                yield link, counter, int(self._call("nvmlDeviceGetNvLinkErrorCounter", link, counter))
            except NvmlError as error:
                if error.code not in codes.ABSENT:
                    self._faults.append((f"{error.call} {counter}", error.code, link))

    def _fabric(self, found: Found) -> tuple[int, int, int, int] | None:
        """By the newest version of the structure that driver and library know; 0: this GPU has no fabric."""
        while found.fabric:
            try:
                told: tuple[int, int, int, int] = self._guarded(
                    lambda: self._library.fabric(self._handle, found.fabric)
                )
            except NvmlError as error:
                if error.code in (codes.ARGUMENT_VERSION_MISMATCH, codes.FUNCTION_NOT_FOUND, codes.DEPRECATED):
                    missing = error.code == codes.FUNCTION_NOT_FOUND and found.fabric > 1
                    found.fabric = 1 if missing else found.fabric - 1
                elif error.code in codes.ABSENT:
                    found.fabric = 0
                else:
                    self._faults.append((error.call, error.code, -1))
                    return None
            else:
                return told
        return None

    def _has(self, call: str, *arguments: int) -> bool:
        """Whether there is such a thing at all: what fails in passing is asked again."""
        try:
            self._call(call, *arguments)
        except NvmlError as error:
            return error.code not in codes.ABSENT
        return True

    def _told(self, call: str, *arguments: int) -> int | None:
        answer = self._optional(call, *arguments, default=None)
        return None if answer is None else int(answer)

    def _optional(self, call: str, *arguments: int, default: Any) -> Any:
        """What a GPU need not have; a fault only where it says something else than that."""
        try:
            return self._call(call, *arguments)
        except NvmlError as error:
            if error.code not in codes.ABSENT:
                self._faults.append((call, error.code, -1))
            return default

    def _call(self, call: str, *arguments: int) -> Any:
        return self._guarded(lambda: self._library.call(call, self._handle, *arguments))

    @staticmethod
    def _guarded(asked: Callable[[], Any]) -> Any:
        try:
            return asked()
        except NvmlError as error:
            if error.code in codes.LOST or error.code in codes.GONE:
                raise GoneError(error.call, error.code) from error
            raise
