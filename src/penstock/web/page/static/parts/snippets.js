// What to type into OBS, FFmpeg and GStreamer to publish to this server.

/** By name: the lines to copy, each with what it is. */
export function snippets({ rtmp, app, stream, key }) {
  const name = key ? `${stream}?key=KEY` : stream;
  const url = `${rtmp}/${app}/${name}`;
  return {
    OBS: {
      hint: "Settings, Stream: choose the service “Custom…”. Output: a key frame interval of 2 s.",
      lines: { Server: `${rtmp}/${app}`, "Stream Key": name },
    },
    FFmpeg: {
      hint: "Colour bars and a tone; with a camera or a file in their place it is yours.",
      lines: {
        Command:
          "ffmpeg -re -f lavfi -i testsrc=size=1280x720:rate=30 -f lavfi -i sine=sample_rate=48000 " +
          "-c:v libx264 -preset veryfast -tune zerolatency -g 60 -pix_fmt yuv420p -c:a aac " +
          `-f flv '${url}'`,
      },
    },
    GStreamer: {
      hint: "The same with GStreamer’s own elements.",
      lines: {
        Command:
          "gst-launch-1.0 videotestsrc is-live=true ! video/x-raw,width=1280,height=720,framerate=30/1 ! " +
          "x264enc tune=zerolatency speed-preset=veryfast key-int-max=60 ! h264parse ! flvmux name=mux streamable=true ! " +
          `rtmp2sink location='${url}' audiotestsrc is-live=true ! voaacenc ! aacparse ! mux.`,
      },
    },
    Penstock: {
      hint: "The test pattern, where Penstock is installed with its tools.",
      lines: { Command: `penstock publish '${url}' --test-pattern` },
    },
  };
}
