// The state of the page in its address, after the #: `page=expr&step=7&node=3`.

export function readAddress() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

export function addressOf(state) {
  return `#${new URLSearchParams(Object.entries(state).filter(([, v]) => v !== undefined && v !== null))}`;
}

export function writeAddress(state) {
  try {
    history.replaceState(null, "", addressOf(state));
  } catch { /* a page within a notebook has no address of its own */ }
}
