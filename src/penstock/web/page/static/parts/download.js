// A recorded file to the disk of whoever uses the page, by a link where the server makes them.

import { h } from "/page/core/dom.js";

/** Without links the file goes through memory, since a browser's download sends no token. */
export async function download(app, recording) {
  const name = recording.path.split("/").at(-1);
  if (app.links.areThere) {
    const { paths } = await app.links.ofRecording(recording.id);
    if (paths.file !== undefined) {
      click(paths.file, name);
      return;
    }
  }
  const answer = await app.api.open(`/recordings/${encodeURIComponent(recording.id)}/file`);
  const address = URL.createObjectURL(await answer.blob());
  click(address, name);
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

function click(address, name) {
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}
