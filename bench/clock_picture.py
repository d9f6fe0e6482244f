"""A clock in the picture: the wall time of each frame as black and white fields, made here and read in a browser.

Owns the form: 32 fields in a row over the upper half, milliseconds of the Unix clock modulo 2^28, most significant bit
first, then fifteen less the sum of the bits, in four. Whoever reads a picture with a wrong sum has read none. The lower
half moves, so that an encoder has some work. Run as a program it writes raw grey frames to its output, in real time,
for an encoder to take in: `python -m bench.clock_picture 30 | ffmpeg -f rawvideo -pix_fmt gray -s 640x360 -r 30 -i -`.
"""

import sys
import time
from typing import Final

WIDTH_PX: Final = 640
HEIGHT_PX: Final = 360
_FIELDS: Final = 32
_FIELD_PX: Final = WIDTH_PX // _FIELDS
_CLOCK_BITS: Final = 28
_BLACK: Final = b"\x10"
_WHITE: Final = b"\xeb"

READ: Final = """
(video) => {
  const canvas = document.createElement("canvas");
  canvas.width = 32;
  canvas.height = 1;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  // One pixel from the middle of each field.
  const [width, height] = [video.videoWidth, video.videoHeight];
  for (let at = 0; at < 32; at += 1) {
    context.drawImage(video, ((at + 0.4) * width) / 32, height / 4, width / 160, height / 20, at, 0, 1, 1);
  }
  const { data } = context.getImageData(0, 0, 32, 1);
  const bits = Array.from({ length: 32 }, (_, at) => (data[at * 4] > 127 ? 1 : 0));
  const sum = 15 - (bits.slice(0, 28).reduce((all, bit) => all + bit, 0) % 16);
  if (sum !== parseInt(bits.slice(28).join(""), 2)) return null;
  const behind = (Date.now() - parseInt(bits.slice(0, 28).join(""), 2)) % 2 ** 28;
  return behind < 0 ? behind + 2 ** 28 : behind;
}
"""
"""JavaScript: milliseconds since the frame was made that a <video> shows; null: it shows no clock."""


def frame(now_ms: int, number: int) -> bytes:
    """One frame, in grey."""
    clock = now_ms % (1 << _CLOCK_BITS)
    bits = f"{clock:028b}{15 - clock.bit_count() % 16:04b}"
    row = b"".join((_WHITE if bit == "1" else _BLACK) * _FIELD_PX for bit in bits)
    ramp = bytes(16 + (at + 5 * number) % 220 for at in range(WIDTH_PX))
    return row * (HEIGHT_PX // 2) + ramp * (HEIGHT_PX // 2)


def main() -> None:
    """Frames as long as somebody takes them."""
    fps = int(sys.argv[1])
    begins_at = 0.0
    number = 0
    while True:
        time.sleep(max(0.0, begins_at + number / fps - time.monotonic()))
        try:
            sys.stdout.buffer.write(frame(time.time_ns() // 1_000_000, number))
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            return
        if number == 0:
            # Not before the encoder takes frames: those that it takes faster would be ahead of its sound for ever.
            begins_at = time.monotonic()
        number += 1


if __name__ == "__main__":
    main()
