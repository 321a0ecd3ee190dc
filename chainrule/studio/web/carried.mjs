// What the page carries: data as JSON, and bytes that were deflated.

export function carriedData() {
  return JSON.parse(document.getElementById("carried").textContent);
}

export async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
