const bodyBytesMax = 8 * 1024;

/** A request that cannot be done, with what to tell whoever sent it. */
export class Refusal extends Error {
  name = "Refusal";
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The JSON object that was sent. Forms of other sites cannot send one: browsers ask first whether they may. */
export async function readObject(request) {
  if (!/^application\/json\b/.test(request.headers["content-type"] ?? "")) throw new Refusal(415, "Send JSON.");
  const chunks = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > bodyBytesMax) throw new Refusal(413, "That is too long.");
    chunks.push(chunk);
  }
  let value = null;
  try {
    value = JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {}
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Refusal(400, "Send a JSON object.");
  return value;
}

const headers = {
  // Nothing on the page comes from elsewhere, whatever somebody writes into the list.
  "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "same-origin",
};

export function send(response, status, body, more = {}) {
  response.writeHead(status, { ...headers, ...more });
  response.end(response.req.method === "HEAD" ? undefined : body);
}

export const sendJson = (response, status, value) =>
  send(response, status, JSON.stringify(value), { "content-type": "application/json", "cache-control": "no-store" });
