// The state of the page in its address, after the #: `page=expr&step=7&node=3`.

const ADDRESS_PAUSE = 150; // milliseconds: browsers stop a page that writes its address all the time
let addressTimer = null;
let addressToWrite = null;

export function readAddress(hash = location.hash) {
  return Object.fromEntries(new URLSearchParams(hash.slice(1)));
}

export function addressOf(state) {
  return `#${new URLSearchParams(Object.entries(state).filter(([, v]) => v !== undefined && v !== null))}`;
}

// Writes the latest state, a little later, or when the reader leaves.
export function writeAddress(state) {
  addressToWrite = addressOf(state);
  addressTimer ??= setTimeout(writeNow, ADDRESS_PAUSE);
}

// A state that was to be written is over: the reader has given another address.
export function forgetAddress() {
  clearTimeout(addressTimer);
  addressTimer = addressToWrite = null;
}

export function writeNow() {
  clearTimeout(addressTimer);
  addressTimer = null;
  try {
    if (addressToWrite !== null) history.replaceState(null, "", addressToWrite);
  } catch {
    /* a page within a notebook has no address of its own */
  }
}
addEventListener("pagehide", writeNow);
