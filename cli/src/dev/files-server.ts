import { createReadStream } from "node:fs";
import { readFile, realpath, stat } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { extname, join, sep } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Clock } from "@svc/runtime/clock";
import { isFileError } from "@svc/runtime/durable-file";
import { CliError } from "../errors.ts";
import { isLoopback } from "../origin.ts";

const reloadPath = "/_svc/reload";
const heartbeatMs = 30_000;
/** A page that comes back after the server was away is a page of before, too. */
const reloadScript = `<script>(()=>{let gone=false;const source=new EventSource("${reloadPath}");source.onmessage=()=>location.reload();source.onopen=()=>gone&&location.reload();source.onerror=()=>{gone=true}})()</script>`;

const types: Readonly<Record<string, string>> = {
  ...{ ".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8" },
  ...{ ".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8" },
  ...{ ".json": "application/json", ".map": "application/json", ".webmanifest": "application/manifest+json" },
  ...{ ".txt": "text/plain; charset=utf-8", ".md": "text/plain; charset=utf-8", ".xml": "text/xml; charset=utf-8" },
  ...{ ".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif" },
  ...{ ".webp": "image/webp", ".avif": "image/avif", ".ico": "image/x-icon", ".wasm": "application/wasm" },
  ...{
    ".woff": "font/woff",
    ".woff2": "font/woff2",
    ".ttf": "font/ttf",
    ".mp4": "video/mp4",
    ".pdf": "application/pdf",
  },
};

/** Serves a directory to this machine; pages that it shows are loaded anew when somebody says so. */
export interface FilesServer extends AsyncDisposable {
  reload(): void;
}

/** Listens at `port` of the loopback addresses. CLI_INVALID_USAGE when that is taken. */
export async function serveFiles(clock: Clock, directory: string, port: number): Promise<FilesServer> {
  const root = await realpath(directory);
  const open = new Set<ServerResponse>();
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    reply(root, request, response, open).catch((thrown: unknown) => {
      if (response.headersSent) response.destroy();
      else refuse(response, 500, thrown instanceof Error ? thrown.message : "The file cannot be read");
    });
  };
  const servers = [createServer(answer), createServer(answer)];
  const [first, second] = servers;
  if (first !== undefined) await listen(first, "127.0.0.1", port);
  // Not every machine has this one.
  if (second !== undefined) await listen(second, "::1", port).catch(() => {});
  const beat = () => {
    for (const each of open) each.write(": heartbeat\n\n");
    timer = clock.after(heartbeatMs, beat).unref();
  };
  let timer = clock.after(heartbeatMs, beat).unref();
  return {
    reload: () => {
      for (const each of open) each.write("data: reload\n\n");
    },
    async [Symbol.asyncDispose]() {
      timer[Symbol.dispose]();
      for (const server of servers) {
        server.closeAllConnections();
        if (server.listening) await new Promise((resolve) => server.close(resolve));
      }
    },
  };
}

const listen = (server: Server, host: string, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once("error", (cause) =>
      reject(
        new CliError("CLI_INVALID_USAGE", `Port ${port} cannot be used: ${cause.message}`, {
          cause,
          hint: "Name another one with --port <n>",
        }),
      ),
    );
    server.listen(port, host, resolve);
  });

async function reply(
  root: string,
  request: IncomingMessage,
  response: ServerResponse,
  open: Set<ServerResponse>,
): Promise<void> {
  const { method, headers, url = "/" } = request;
  // Somebody else's page may have a name of its own lead to this machine, and read what is only meant for it.
  const host = URL.parse(`http://${headers.host}`)?.hostname ?? "";
  if (!isLoopback(host)) return refuse(response, 403, "This server is for localhost only");
  if (method !== "GET" && method !== "HEAD") return refuse(response, 405, "Only GET and HEAD");
  const path = pathOf(url);
  if (path === reloadPath) return follow(response, open);
  const file = path === null ? null : await fileAt(root, path);
  if (file === "directory") {
    response.writeHead(302, { location: encodeURI(`${path}/`) }).end();
    return;
  }
  const shown = file ?? (await fileAt(root, "/404.html"));
  if (shown === null || shown === "directory") return refuse(response, 404, "There is no such file");
  const type = types[extname(shown).toLowerCase()] ?? "application/octet-stream";
  const head = { "content-type": type, "cache-control": "no-store", "x-content-type-options": "nosniff" };
  const status = file === null ? 404 : 200;
  if (type.startsWith("text/html")) {
    const page = withReload(await readFile(shown, "utf8"));
    response
      .writeHead(status, { ...head, "content-length": Buffer.byteLength(page) })
      .end(method === "HEAD" ? "" : page);
    return;
  }
  const { size } = await stat(shown);
  response.writeHead(status, { ...head, "content-length": size });
  if (method === "HEAD") response.end();
  else await pipeline(createReadStream(shown), response);
}

function pathOf(url: string): string | null {
  try {
    const path = decodeURIComponent(url.split(/[?#]/)[0] ?? "/").replaceAll(/\/+/g, "/");
    // What begins with a dot is not for visitors: a repository, passwords.
    return path.includes("\0") || path.includes("\\") || path.split("/").some((part) => part.startsWith("."))
      ? null
      : path;
  } catch {
    return null;
  }
}

/** The file that a path shows; null when there is none inside of `root`. "directory": the path of one, without its slash. */
async function fileAt(root: string, path: string): Promise<string | "directory" | null> {
  for (const name of path.endsWith("/") ? [`${path}index.html`] : [path, `${path}.html`]) {
    try {
      const file = await realpath(join(root, name));
      if (!file.startsWith(`${root}${sep}`)) continue;
      const found = await stat(file);
      if (found.isFile()) return file;
      if (found.isDirectory() && (await fileAt(root, `${name}/`)) !== null) return "directory";
    } catch (thrown) {
      if (!isFileError(thrown, "ENOENT", "ENOTDIR", "EACCES", "ELOOP", "ENAMETOOLONG")) throw thrown;
    }
  }
  return null;
}

function withReload(page: string): string {
  const end = page.search(/<\/body\s*>/i);
  return end === -1 ? `${page}${reloadScript}` : `${page.slice(0, end)}${reloadScript}${page.slice(end)}`;
}

function follow(response: ServerResponse, open: Set<ServerResponse>): void {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  response.write(": connected\n\n");
  open.add(response);
  response.once("close", () => open.delete(response));
}

function refuse(response: ServerResponse, status: number, text: string): void {
  response
    .writeHead(status, { "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" })
    .end(`${text}\n`);
}
