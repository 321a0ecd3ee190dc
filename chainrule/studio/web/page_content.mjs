// What the page carries: data as JSON, and bytes, all deflated.

// {data, binaries}: the bytes are still as `inflate` reads them.
export async function pageContent() {
  const {data, binaries} = JSON.parse(document.getElementById("carried").textContent);
  return {data: JSON.parse(new TextDecoder().decode(await inflate(data))), binaries};
}

export async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
