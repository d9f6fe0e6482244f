"""Records written by hand from syntax tables: bits as text, so that each field can be seen."""


def bytes_of(bits: str) -> bytes:
    """The bytes of a text of 0 and 1, filled up with zeros; blanks only part the fields."""
    digits = bits.replace(" ", "")
    size = -(-len(digits) // 8)
    return int(digits.ljust(size * 8, "0") or "0", 2).to_bytes(size, "big")
