"""AMF0 and AMF3: values to bytes and back, bounded.

Bytes from outside come in through the readers, which give values or MalformedAmf and nothing else. What we send goes
out through the writers; a value that they cannot write is MisuseError. `values` says what a value is in Python.
"""

from penstock.amf.amf0 import (
    LenientValues,
    read_amf0_leniently,
    read_amf0_value,
    read_amf0_values,
    write_amf0_values,
)
from penstock.amf.amf3 import read_amf3_value
from penstock.amf.amf3_writer import write_amf3_value
from penstock.amf.values import (
    DEFAULT_LIMITS,
    UNDEFINED,
    UNSUPPORTED,
    AmfDate,
    AmfLimits,
    AmfValue,
    AmfXml,
    EcmaArray,
    TypedObject,
    Undefined,
    Unsupported,
    printable,
)

__all__ = [
    "DEFAULT_LIMITS",
    "UNDEFINED",
    "UNSUPPORTED",
    "AmfDate",
    "AmfLimits",
    "AmfValue",
    "AmfXml",
    "EcmaArray",
    "LenientValues",
    "TypedObject",
    "Undefined",
    "Unsupported",
    "printable",
    "read_amf0_leniently",
    "read_amf0_value",
    "read_amf0_values",
    "read_amf3_value",
    "write_amf0_values",
    "write_amf3_value",
]
