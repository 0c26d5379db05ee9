"""What the property tests share: their settings and strategies."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

quick = settings(max_examples=60, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
"""Many cheap examples."""
few = settings(quick, max_examples=25)
"""For examples that touch the file system."""

junk = st.binary(max_size=64)
"""What a file may hold when something is wrong."""
near_numbers = st.one_of(
    junk,
    st.integers(-(1 << 66), 1 << 66).map(lambda n: str(n).encode()),
    st.from_regex(rb"[-+ ]?[0-9_.eExX]{1,24}[ \n]*", fullmatch=True),
    st.text(max_size=12).map(str.encode),
)
"""Bytes that are numbers, or nearly."""
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=24)
"""Text as it may stand in a label: anything but lone surrogates."""
