"""The Prometheus operator's two kinds that the chart makes, as far as it uses them: a strict check of our own.

Their CRDs are in no package that a test could install. From the operator's API reference, monitoring.coreos.com/v1:
`str`, `bool`, `dict` (of texts) are types; a tuple is a list of what it holds.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_SELECTOR = {"name": str, "key": str}
_EITHER = {"secret": _SELECTOR, "configMap": _SELECTOR}
_RELABELING = {
    "sourceLabels": (str,),
    "targetLabel": str,
    "regex": str,
    "replacement": str,
    "separator": str,
    "action": str,
    "modulus": int,
}
_TLS = {
    "ca": _EITHER,
    "cert": _EITHER,
    "keySecret": _SELECTOR,
    "serverName": str,
    "insecureSkipVerify": bool,
    "minVersion": str,
    "maxVersion": str,
}
_ENDPOINT = {
    "port": str,
    "path": str,
    "scheme": str,
    "interval": str,
    "scrapeTimeout": str,
    "tlsConfig": _TLS,
    "basicAuth": {"username": _SELECTOR, "password": _SELECTOR},
    "relabelings": (_RELABELING,),
    "metricRelabelings": (_RELABELING,),
}
_RULE = {
    "record": str,
    "alert": str,
    "expr": str,
    "for": str,
    "keep_firing_for": str,
    "labels": dict,
    "annotations": dict,
}
_GROUP = {"name": str, "interval": str, "limit": int, "query_offset": str, "labels": dict, "rules": (_RULE,)}
SPECS: Mapping[str, Any] = {
    "PodMonitor": {
        "jobLabel": str,
        "selector": {"matchLabels": dict},
        "podMetricsEndpoints": (_ENDPOINT,),
    },
    "PrometheusRule": {"groups": (_GROUP,)},
}


def mistakes(resource: Mapping[str, Any]) -> list[str]:
    """What the operator would refuse; nothing for kinds that are not its own."""
    if resource["apiVersion"] != "monitoring.coreos.com/v1":
        return []
    return list(_wrong(SPECS[resource["kind"]], resource["spec"], "spec"))


def _wrong(shape: Any, value: Any, where: str) -> Iterator[str]:
    if isinstance(shape, tuple):
        if not isinstance(value, list) or not value:
            yield f"{where}: a list is needed"
        else:
            for number, item in enumerate(value):
                yield from _wrong(shape[0], item, f"{where}[{number}]")
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            yield f"{where}: a mapping is needed"
            return
        yield from (f"{where}.{key}: no such key" for key in value.keys() - shape.keys())
        for key in value.keys() & shape.keys():
            yield from _wrong(shape[key], value[key], f"{where}.{key}")
    elif shape is dict:
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            yield f"{where}: texts are needed"
    elif type(value) is not shape:
        yield f"{where}: {shape.__name__} is needed"
