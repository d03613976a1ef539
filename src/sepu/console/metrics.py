"""Reads the metrics of the service and the backup from addresses that an operator gives."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from sepu.console.pages import ServiceState
from sepu.outgoing import open_client

# For all addresses together: a page waits for them.
_SECONDS = 0.7
_BYTES = 4 << 20
_MOST = 2.0**40


def read_service_state(addresses: Sequence[str]) -> ServiceState:
    """Returns the workers that the addresses report, and the latest base backup."""
    found = asyncio.run(_read(addresses)) if addresses else []
    workers = [number for samples in found for name, number in samples or () if name == "sepu_workers"]
    backups = [number for samples in found for name, number in samples or () if name == "sepu_backup_timestamp_seconds"]
    return ServiceState(
        int(sum(workers)) if workers else None,
        datetime.fromtimestamp(max(backups), UTC) if backups else None,
        tuple(address for address, samples in zip(addresses, found, strict=True) if samples is None),
    )


Samples = list[tuple[str, float]]


async def _read(addresses: Sequence[str]) -> list[Samples | None]:
    async with open_client() as client:
        return list(await asyncio.gather(*[_samples(client, address) for address in addresses]))


async def _samples(client: httpx2.AsyncClient, address: str) -> Samples | None:
    """Returns the names and values that an address gives, without the labels."""
    text = b""
    try:
        async with (
            asyncio.timeout(_SECONDS),
            client.stream("GET", address, headers={"Accept-Encoding": "identity"}) as answer,
        ):
            answer.raise_for_status()
            async for part in answer.aiter_raw():
                text += part
                if len(text) > _BYTES:
                    return None
        families = text_string_to_metric_families(text.decode())
        samples = [(sample.name, float(sample.value)) for family in families for sample in family.samples]
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError):
        return None
    return [(name, number) for name, number in samples if 0 <= number < _MOST]
