import { lookup as dnsLookup } from "node:dns";
import type { LookupFunction } from "node:net";
import { Readable } from "node:stream";
import type { Clock } from "@svc/runtime/clock";
import { Agent, type Dispatcher, EnvHttpProxyAgent, request } from "undici";
import type { Env } from "./environment.ts";
import { CliError } from "./errors.ts";
import { isLocalName, isLoopback } from "./origin.ts";

/** A body that is not held in memory; `sizeBytes` is sent as its length. */
export interface StreamBody {
  sizeBytes: number;
  stream(): AsyncIterable<Uint8Array>;
}

export interface HttpRequest {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  url: string;
  headers?: Readonly<Record<string, string>>;
  body?: string | StreamBody;
  /** The whole call, answer included. */
  timeoutMs: number;
  /** How much of the answer is read at most; 0 to read none of it. */
  maxBytes: number;
  signal: AbortSignal;
}

export interface HttpResponse {
  status: number;
  header(name: string): string | null;
  body: string;
}

/** An answer whose body is still to come; whoever reads it reads all of it. */
export interface HttpDownload {
  status: number;
  header(name: string): string | null;
  /** Fails with CLOUD_UNAVAILABLE when the connection is cut. */
  chunks: AsyncIterable<Buffer>;
}

export interface Http {
  /** One request, no redirects followed. CLOUD_UNAVAILABLE when no answer came. */
  send(options: HttpRequest): Promise<HttpResponse>;
  /** The same for an answer that is not held in memory: `take` reads it, `maxBytes` at most. */
  download<T>(options: HttpRequest, take: (answer: HttpDownload) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

const connectMs = 10_000;
const idleMs = 60_000;

/** Name resolution that keeps `localhost` and every name below it on this machine, whatever the system's resolver thinks. */
export const lookup: LookupFunction = (hostname, options, callback) => {
  if (!isLocalName(hostname)) dnsLookup(hostname, options, callback);
  else if (options.all) callback(null, [{ address: "127.0.0.1", family: 4 }]);
  else callback(null, "127.0.0.1", 4);
};

/** An HTTP client. Proxy variables of the environment are honoured, except for this machine itself. */
export function createHttp(clock: Clock, env: Env): Http {
  const timeouts = { connect: { lookup, timeout: connectMs }, bodyTimeout: idleMs, headersTimeout: 0 };
  const direct = new Agent(timeouts);
  const proxies = proxySettings(env);
  const proxied = proxies === null ? direct : new EnvHttpProxyAgent({ ...timeouts, ...proxies });

  const download: Http["download"] = async ({ method, url, headers, body, timeoutMs, maxBytes, signal }, take) => {
    const deadline = clock.abortAfter(timeoutMs);
    const dispatcher: Dispatcher = isLoopback(new URL(url).hostname) ? direct : proxied;
    try {
      const response = await request(url, {
        method,
        dispatcher,
        signal: AbortSignal.any([signal, deadline]),
        headers: { ...headers, ...(typeof body === "object" ? { "content-length": String(body.sizeBytes) } : {}) },
        body: typeof body === "object" ? Readable.from(body.stream(), { objectMode: false }) : (body ?? null),
      });
      return await take({
        status: response.statusCode,
        header: (name) => [response.headers[name.toLowerCase()]].flat()[0] ?? null,
        chunks: boundedChunks(response.body, maxBytes),
      });
    } catch (thrown) {
      if (signal.aborted || thrown instanceof CliError) throw thrown;
      throw networkError(url, deadline.aborted ? deadline.reason : thrown, dispatcher !== direct);
    }
  };
  return {
    download,
    send: (options) =>
      download(options, async ({ status, header, chunks }) => ({ status, header, body: await textOf(chunks) })),
    async close() {
      await Promise.all([direct.destroy(), proxied === direct ? undefined : proxied.destroy()]);
    },
  };
}

/** Proxies that the environment names, lower case first as curl has it; null for none. */
function proxySettings(env: Env): { httpProxy: string; httpsProxy: string; noProxy: string } | null {
  const read = (name: string) => env[name] || env[name.toUpperCase()] || "";
  const proxy = (name: string) => {
    const given = read(name);
    // As curl takes it: `proxy.test:3128`.
    const url = given === "" || given.includes("://") ? given : `http://${given}`;
    if (url === "" || /^(?:https?|socks5?):$/.test(URL.parse(url)?.protocol ?? "")) return url;
    throw new CliError("CLI_INVALID_USAGE", `${name.toUpperCase()} is not the address of a proxy`, {
      hint: "Write it as http://proxy.example.test:3128, or unset it",
    });
  };
  const settings = { httpProxy: proxy("http_proxy"), httpsProxy: proxy("https_proxy"), noProxy: read("no_proxy") };
  return settings.httpProxy === "" && settings.httpsProxy === "" ? null : settings;
}

/** What comes, up to `maxBytes`; none of it is read where that is 0. */
async function* boundedChunks(body: Dispatcher.ResponseData["body"], maxBytes: number): AsyncIterable<Buffer> {
  let sizeBytes = 0;
  if (maxBytes === 0) {
    body.on("error", () => {});
    body.destroy();
    return;
  }
  for await (const chunk of body as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes)
      throw new CliError("CLOUD_UNAVAILABLE", `The answer is larger than ${maxBytes} bytes`, {
        hint: "What answers there is hardly svc; go to another address with `svc login --api-url <url>`",
      });
    yield chunk;
  }
}

async function textOf(chunks: AsyncIterable<Buffer>): Promise<string> {
  const all: Buffer[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all).toString("utf8");
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ENOTFOUND: "the name cannot be resolved",
  EAI_AGAIN: "the name cannot be resolved just now",
  ECONNRESET: "the connection was cut",
  EPIPE: "the connection was cut",
  // A proxy's answer to CONNECT, such as 407.
  UND_ERR_ABORTED: "the proxy lets nothing through",
  UND_ERR_SOCKET: "the connection was cut",
  ETIMEDOUT: "it does not answer",
  UND_ERR_CONNECT_TIMEOUT: "it does not answer",
  UND_ERR_HEADERS_TIMEOUT: "it does not answer",
  UND_ERR_BODY_TIMEOUT: "it stopped answering",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the network cannot be reached",
};

const certificateCodes =
  /^(CERT_|ERR_TLS_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT|UNABLE_TO_(GET_ISSUER|VERIFY_LEAF)|ERR_SSL_|EPROTO)/;

/**
 * Why a request got no answer, in words and with what helps.
 *
 * @param byProxy whether the environment names one that it may have gone through
 */
export function networkError(url: string, cause: unknown, byProxy = false): CliError {
  const { origin, hostname } = new URL(url);
  const code = codeOf(cause);
  if (certificateCodes.test(code)) {
    const wrongScheme = code === "EPROTO" || code.startsWith("ERR_SSL_");
    return new CliError("CLOUD_UNAVAILABLE", `No safe connection to ${origin} (${code})`, {
      cause,
      hint:
        wrongScheme && isLoopback(hostname)
          ? `If it speaks plain http there, use ${origin.replace("https:", "http:")}`
          : "If it has a certificate of a private authority, name that authority's file in NODE_EXTRA_CA_CERTS",
    });
  }
  const why = cause instanceof DOMException && cause.name === "TimeoutError" ? "it does not answer" : reasons[code];
  return new CliError("CLOUD_UNAVAILABLE", `Cannot reach ${origin}: ${why ?? (code || "the request failed")}`, {
    cause,
    hint: byProxy
      ? `See whether the proxy that HTTPS_PROXY or HTTP_PROXY names is the right one; NO_PROXY=${hostname} goes without it`
      : "Start the service, or go to another one with `svc login --api-url <url>`",
  });
}

/** The system's or library's code of an error, wherever in it that hides. */
function codeOf(thrown: unknown): string {
  if (thrown instanceof AggregateError && thrown.errors.length > 0) return codeOf(thrown.errors[0]);
  if (!(thrown instanceof Error)) return "";
  if ("code" in thrown && typeof thrown.code === "string") return thrown.code;
  return codeOf(thrown.cause);
}
