"""The plan of a simulated platform: when servers go down, when streams are on the air, and their incidents.

One incident of each kind: an ingest stall, a bitrate collapse, drifting audio, a viewer exodus, a reconnect storm; and
a killed server. Everything follows from the seed.
"""

import numpy as np

from penstock.pipeline.simulator.clock import Dip, OnAir, channel_clock
from penstock.pipeline.simulator.crowd import make_addresses, make_views
from penstock.pipeline.simulator.plan import (
    APPS,
    CLIENTS,
    COLLAPSING,
    HOUR_US,
    SECOND_US,
    STALLED,
    STORMY,
    Boot,
    Channels,
    Plan,
    Platform,
    Publications,
    boot_at,
)


def make_plan(platform: Platform) -> Plan:
    """The plan of a platform, the same for the same seed."""
    rng = np.random.default_rng(platform.seed)
    boots = _boots(platform, rng)
    channels = _channels(platform, rng)
    publications = _publications(platform, rng, boots, channels)
    rate = rng.integers(150, 750, platform.streams)[channels.stream] * 1000
    broadcasts = [
        OnAir(*map(int, row))
        for row in zip(publications.channel, publications.started_us, publications.ended_us, strict=True)
    ]
    people = max(platform.viewers * 6 // 10, 1)
    views = make_views(platform, rng, boots, channels, people)
    named = rng.integers(0, 10, people).tolist()
    stream = range(platform.streams)
    return Plan(
        platform=platform,
        boots=boots,
        stream_apps=tuple(APPS[each % len(APPS)] for each in stream),
        stream_names=tuple(f"channel-{each:02d}" for each in stream),
        channels=channels,
        clock=channel_clock(platform.begins_us, rate, broadcasts, _dips(platform, channels)),
        publications=publications,
        views=views,
        person_ip=make_addresses(rng, people),
        person_client=rng.integers(0, len(CLIENTS), people),
        person_protocol=tuple("rtmps" if each < 3 else "rtmp" for each in rng.integers(0, 10, people)),
        person_viewer=tuple(f"viewer{person}" if each in (0, 1, 2) else None for person, each in enumerate(named)),
        person_subject=tuple(f"account{person}" if each in (2, 3) else None for person, each in enumerate(named)),
        stream_subject=tuple(None if each % 3 == 2 else f"studio{each}" for each in stream),
    )


def _channels(platform: Platform, rng: np.random.Generator) -> Channels:
    """Streams with an incident are always on the air, others for an evening."""
    number = np.arange(platform.streams)
    share, length = rng.uniform(0.45, 0.8, len(number)), rng.uniform(0.12, 0.3, len(number))
    later_us = platform.ends_us + HOUR_US
    from_us = np.array([platform.moment(each) for each in share])
    to_us = np.array([platform.moment(each) for each in share + length])
    from_us[: STORMY + 1], to_us[: STORMY + 1] = platform.begins_us + 10 * SECOND_US, later_us
    # The two largest streams are on two servers each, so that audiences have to be summed over servers.
    stream = np.concatenate([number, number[:2]])
    server = np.concatenate([number, number[:2] + 1]) % platform.servers
    return Channels(stream, server, from_us[stream], np.minimum(to_us, later_us)[stream])


def _boots(platform: Platform, rng: np.random.Generator) -> tuple[Boot, ...]:
    """The first server is restarted normally, the second is killed in the evening, the others keep running."""
    outages = {0: (platform.moment(0.2), 5, False), 1 % platform.servers: (platform.moment(0.86), 12, True)}
    boots = []
    for server in range(platform.servers):
        # Servers run on after the simulated time, so that some views and publications are open at its end.
        later_us = platform.ends_us + 2 * HOUR_US
        spans = [(platform.begins_us + server * 1000, later_us, False, False)]
        if server in outages:
            down_us, pause_s, is_killed = outages[server]
            spans = [
                (spans[0][0], down_us, is_killed, not is_killed),
                (down_us + pause_s * SECOND_US, later_us, False, False),
            ]
        for started_us, down_us, is_killed, is_stopped in spans:
            # What was not flushed yet when the server was killed is lost.
            told_until_us = min(down_us - 400_000 if is_killed else down_us + 1, platform.ends_us)
            word = rng.integers(0, 1 << 32, 2)
            boots.append(
                Boot(
                    server_id=f"edge-{server + 1}",
                    boot_id=f"{word[0]:08x}",
                    conn_prefix=f"{word[1] & 0xFFFFFF:06x}",
                    server=server,
                    pid=int(rng.integers(300, 30_000)),
                    started_us=started_us,
                    down_us=down_us,
                    told_until_us=told_until_us,
                    is_killed=is_killed,
                    is_stopped=is_stopped,
                    mono_offset_us=started_us - int(rng.integers(10**8, 10**12)),
                )
            )
    return tuple(boots)


def _publications(
    platform: Platform, rng: np.random.Generator, boots: tuple[Boot, ...], channels: Channels
) -> Publications:
    """Broadcasts, cut where the encoder reconnects and where the server goes down."""
    rows: list[tuple[int, int, int]] = []
    for channel, (stream, server) in enumerate(zip(channels.stream, channels.server, strict=True)):
        start_us, end_us = int(channels.from_us[channel]), int(channels.to_us[channel])
        cuts = [start_us + int(share * (end_us - start_us)) for share in rng.uniform(0.1, 0.9, 3)]
        if stream == STORMY:
            cuts += [platform.moment(0.5) + each * 40 * SECOND_US for each in range(6)]
        downs = [boot.down_us for boot in boots if boot.server == server and boot.down_us < platform.ends_us]
        at_us = start_us
        for cut_us in sorted([*cuts, *downs, end_us]):
            if cut_us - at_us > 10 * SECOND_US:
                # A server that stops in order ends its publications just before it is gone.
                rows.append((channel, at_us, cut_us - (2000 if cut_us in downs else 0)))
                at_us = cut_us + int(rng.integers(2 * SECOND_US, 8 * SECOND_US))
    channel_of, starts_us, ends_us = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    boot, wait_us = boot_at(boots, channels.server[channel_of], starts_us)
    starts_us = starts_us + wait_us + np.where(wait_us > 0, rng.integers(1, 4, len(rows)) * SECOND_US, 0)
    keep = (starts_us + 5 * SECOND_US < ends_us) & (starts_us < platform.ends_us)
    opened_us = starts_us - rng.integers(40_000, 300_000, len(rows))
    return Publications(channel_of[keep], boot[keep], opened_us[keep], starts_us[keep], ends_us[keep])


def _dips(platform: Platform, channels: Channels) -> list[Dip]:
    stalled_us, collapsing_us = platform.moment(0.83), platform.moment(0.875)
    return [
        *(
            Dip(int(channel), stalled_us, stalled_us + 20 * SECOND_US, rate_permille=0)
            for channel in np.flatnonzero(channels.stream == STALLED)
        ),
        *(
            Dip(int(channel), collapsing_us, collapsing_us + 90 * SECOND_US, rate_permille=200)
            for channel in np.flatnonzero(channels.stream == COLLAPSING)
        ),
    ]
