import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { dirname, extname } from "node:path";
import { fileURLToPath } from "node:url";
import { send } from "./http.js";

const types = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Files for browsers, read once: those of `public`, and below /realtime/ the client of @svc/realtime, which needs no bundler. */
export async function loadFiles() {
  const files = new Map();
  const load = async (directory, prefix, isWanted) => {
    for (const name of (await readdir(directory)).filter(isWanted)) {
      const body = await readFile(`${directory}/${name}`);
      const etag = `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`;
      files.set(`${prefix}${name}`, { body, etag, type: types[extname(name)] });
    }
  };
  await load(fileURLToPath(new URL("../public", import.meta.url)), "/", (name) => extname(name) in types);
  const client = dirname(fileURLToPath(import.meta.resolve("@svc/realtime/client")));
  await load(client, "/realtime/", (name) => /^(client|shared-.*)\.js$/.test(name));
  files.set("/", files.get("/index.html"));
  return files;
}

/** Answers with a file, or that the browser has it already. */
export function sendFile(request, response, { body, etag, type }) {
  const more = { "content-type": type, "cache-control": "no-cache", etag };
  if (request.headers["if-none-match"]?.includes(etag)) send(response, 304, undefined, more);
  else send(response, 200, body, more);
}
