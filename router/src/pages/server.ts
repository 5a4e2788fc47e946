import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { isIP } from "node:net";
import { isHost } from "../names.ts";
import { htmlType, jsonType, type PageName, pageHeaders, pageHtml, pageJson, pages, wantsJson } from "./page.ts";

/** What the router answers Caddy, on loopback. */
export interface PageServer extends AsyncDisposable {
  /** host:port where it listens. */
  address: string;
}

/**
 * Four questions come here. `GET /ask?domain=…` is Caddy's own, before it gets a certificate: 200 for hosts
 * that Caddy may make one for, else 404. A request with `X-Svc-Reason: host` is a visitor's, whose Host is not spelled as
 * in the table: a redirect to the right spelling, or the page that says that there is no such site. One with
 * `X-Svc-Reason: password` brings a site's password, and with `X-Svc-Reason: rules` Caddy asks what a static site says of a
 * request. Caddy removes that header from what visitors send, so nobody can ask the first question as a visitor.
 *
 * @param serves whether the table has a host
 * @param mayCertify whether Caddy may make a certificate for a host by itself: where it has none of control it would for each
 * @param answers.logIn answers a visitor who brings a password
 * @param answers.byRules answers what a static site says of a request
 */
export async function startPageServer(
  listen: { host: string; port: number },
  { serves, mayCertify }: { serves: (host: string) => boolean; mayCertify: (host: string) => boolean },
  { logIn, byRules }: Record<"logIn" | "byRules", (request: IncomingMessage, response: ServerResponse) => void>,
): Promise<PageServer> {
  const server = createServer((request, response) => {
    const reason = request.headers["x-svc-reason"];
    if (reason === "password") return logIn(request, response);
    // What a visitor sends is of no interest; the connection goes on behind it.
    request.resume();
    if (reason === "rules") byRules(request, response);
    else if (reason === undefined) answerCaddy(request, response, mayCertify);
    else answerVisitor(request, response, serves);
  });
  server.requestTimeout = 10_000;
  server.headersTimeout = 5000;
  server.maxHeadersCount = 200;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(listen.port, listen.host, resolve);
  });
  const bound = server.address();
  const port = bound !== null && typeof bound === "object" ? bound.port : listen.port;
  return {
    address: `${isIP(listen.host) === 6 ? `[${listen.host}]` : listen.host}:${port}`,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function answerCaddy(request: IncomingMessage, response: ServerResponse, mayCertify: (host: string) => boolean): void {
  const url = new URL(request.url ?? "/", "http://router.invalid");
  const domain = url.searchParams.get("domain");
  const known = request.method === "GET" && url.pathname === "/ask" && domain !== null && mayCertify(domain);
  response.writeHead(known ? 200 : 404, { "Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store" });
  response.end(known ? "yes\n" : "no\n");
}

function answerVisitor(request: IncomingMessage, response: ServerResponse, serves: (host: string) => boolean): void {
  const location = rightSpelling(request.headers, request.url ?? "/", serves);
  if (location === null) sendPage(request, response, "unknown");
  else response.writeHead(308, { Location: location, "Cache-Control": "no-store", "Content-Length": 0 }).end();
}

/**
 * Where a request belongs whose Host differs from a host of the table in case or by a final dot only; null
 * when there is none.
 *
 * @param url path and query as the visitor sent them
 */
export function rightSpelling(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  url: string,
  serves: (host: string) => boolean,
): string | null {
  const said = headers["x-svc-host"];
  const scheme = headers["x-forwarded-proto"] === "https" ? "https" : "http";
  const [, name = "", port = ""] = /^([A-Za-z0-9.-]+?)\.?(:\d{1,5})?$/.exec(typeof said === "string" ? said : "") ?? [];
  const host = name.toLowerCase();
  if (!isHost(host) || !serves(host)) return null;
  return `${scheme}://${host}${port}${url.startsWith("/") ? url : "/"}`;
}

/** @param next for a page that asks for a password: where to go on, as it may stand in an attribute */
export function sendPage(
  request: IncomingMessage,
  response: ServerResponse,
  name: PageName,
  next: string | null = null,
): void {
  const page = pages[name];
  const json = wantsJson(request.headers.accept ?? "");
  const body = json ? pageJson(page) : pageHtml(page, next);
  response.writeHead(page.status, {
    ...pageHeaders(page),
    "Content-Type": json ? jsonType : htmlType,
    "Content-Length": Buffer.byteLength(body),
  });
  response.end(body);
}
