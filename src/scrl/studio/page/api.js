// Talks to the server: requests by POST, and a stream of events.

export const windowName = crypto.randomUUID();

export class Refusal extends Error {
  constructor(message, status) { super(message); this.status = status; }
}

async function answer(response) {
  const text = await response.text();
  let data;
  try { data = JSON.parse(text); } catch { data = {error: text.trim()}; }
  if (!response.ok) throw new Refusal(data.error || response.statusText, response.status);
  return data;
}

export async function post(name, body = {}) {
  const response = await fetch(`/api/${name}`, {
    method: "POST", headers: {"content-type": "application/json"},
    body: JSON.stringify({window: windowName, ...body}),
  });
  return answer(response);
}

export async function get(path) { return answer(await fetch(path)); }

export async function upload(file) {
  const response = await fetch(`/api/open?name=${encodeURIComponent(file.name)}`, {
    method: "POST", headers: {"content-type": "application/octet-stream"}, body: file,
  });
  return answer(response);
}

// Calls on[event](data) for every event, and on.lost(isFinal) while there is no connection.
export function listen(on) {
  const source = new EventSource(`/api/events?window=${windowName}`);
  for (const name of Object.keys(on).filter(each => each !== "lost" && each !== "found"))
    source.addEventListener(name, event => on[name](JSON.parse(event.data)));
  source.onopen = () => on.found();
  source.onerror = () => on.lost(source.readyState === EventSource.CLOSED);
}

// Runs one request at a time; of those that come meanwhile only the newest is sent.
export function newestOnly(send) {
  let isBusy = false, waiting = null;
  async function run(request) {
    isBusy = true;
    try { await send(request); } finally {
      isBusy = false;
      if (waiting) { const next = waiting; waiting = null; run(next); }
    }
  }
  return {
    send: request => { if (isBusy) waiting = request; else run(request); },
    forget: () => { waiting = null; },
  };
}

// Fetches a file and hands it to the browser as a download; returns warnings about it.
export async function download(path) {
  const response = await fetch(path);
  if (!response.ok) await answer(response);
  const address = URL.createObjectURL(await response.blob()), link = document.createElement("a");
  link.href = address;
  link.download = decodeURIComponent(response.headers.get("x-file-name"));
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  return JSON.parse(decodeURIComponent(response.headers.get("x-warnings")));
}
