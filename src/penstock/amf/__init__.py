"""AMF0 and AMF3: values to bytes and back, bounded."""
